"""What others write is shown without secrets, also next to a cut, and without what a terminal would carry out."""

import unicodedata
from random import Random

import pytest

from inference_operator.views.redact import HIDDEN
from inference_operator.views.untrusted_text import (
    LINE_CHARACTERS,
    LOG_CHARACTERS,
    MAX_CAUSE_LENGTH,
    log_tail,
    one_line,
    termination_message,
)
from tests.testing.untrusted_texts import FORMS, WORST, secret

LINES, SIZE = 500, 256 * 1024
PART = 6
"""Characters of a secret of which no run may be shown."""


def shown_parts(shown: str, hidden: str) -> list[str]:
    return [part for at in range(len(hidden) - PART + 1) if (part := hidden[at : at + PART]) in shown]


@pytest.mark.parametrize("form", FORMS)
def test_a_cut_at_any_place_shows_no_part_of_a_secret(form: str) -> None:
    random = Random(form)  # noqa: S311 - a test
    value = secret(random)
    text = form.format(value)
    for at in range(len(text) + 1):
        before = ("a word " * 700)[: LINE_CHARACTERS - at - 1] + " "
        cases = {
            "within a line": log_tail(f"{before}{text}\nthe end\n", lines=LINES, size=SIZE),
            "before the rest of its line": log_tail(f"{before}{text}{'x' * 5000}", lines=LINES, size=SIZE),
            "at the end of what was read": log_tail(f"the begin\n{text[:at]}", lines=LINES, size=10),
            "at the end of a message": one_line(f"{before}{text}"),
            "of a termination message": termination_message(("a word\n" * 700)[: 4095 - at] + "\n" + text[:at]),
            "before a termination message": termination_message(text[at:] + "\n" + "a word\n" * 300),
        }
        found = {case: shown_parts(shown, value) for case, shown in cases.items()}
        assert not any(found.values()), (at, text, found)
    for begin, line in enumerate(text.split("\n")):
        rest = "\n".join(text.split("\n")[begin:])
        shown = log_tail(f"{rest}\nthe end\n", lines=rest.count("\n") + 2, size=SIZE)
        assert not shown_parts(shown, value), (line, shown)


def test_lines_in_the_middle_of_pem_are_hidden_where_a_cut_has_removed_both_its_ends() -> None:
    lines = ["(EngineCore pid=7) " + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7" + "x" * 12] * 5
    assert "MIIE" not in log_tail("\n".join(lines), lines=5, size=SIZE)


@pytest.mark.parametrize("piece", WORST)
def test_the_work_on_a_text_has_a_bound(piece: str) -> None:
    """Patterns that read a line again from each of its places would take minutes here."""
    text = piece * (SIZE // len(piece))
    assert len(log_tail(text, lines=LINES, size=SIZE)) <= 2 * LOG_CHARACTERS
    assert len(one_line(text)) <= MAX_CAUSE_LENGTH + 2


@pytest.mark.parametrize(
    "text", ["\x1b]52;c;Y3VybA==\x07\x1b[2J", "\x9b2J a \x85", "pass\u200bword: hunter2", "a\u202egnp.exe", "\ud800 b"]
)
def test_control_characters_reach_nobody(text: str) -> None:
    for shown in (one_line(text), log_tail(text, lines=LINES, size=SIZE), termination_message(text)):
        assert not [character for character in shown if unicodedata.category(character) in {"Cc", "Cf", "Cs"} - {"\n"}]
        assert "hunter2" not in shown


def test_colours_of_a_log_leave_nothing_behind() -> None:
    assert (
        one_line("\x1b[0;36m(EngineCore pid=7)\x1b[0m ERROR \x1b[1;31mKeyError\x1b[m")
        == "(EngineCore pid=7) ERROR KeyError"
    )


def test_of_a_long_line_the_beginning_is_read_and_of_a_log_the_end() -> None:
    log = "first\n" * LOG_CHARACTERS + "ValueError: Unsupported activation: " + "x" * SIZE + "\nlast line\n"
    shown = log_tail(log, lines=LINES, size=2 * len(log))
    assert shown.startswith("ValueError: Unsupported activation: …\nlast line\n")


def test_each_state_of_a_progress_bar_is_a_line() -> None:
    bar = "\r".join(f"Loading shards: {percent}% | 4/7" for percent in range(100)) + "\n"
    assert log_tail(bar * 10, lines=LINES, size=SIZE).splitlines()[-1] == "Loading shards: 99% | 4/7"


def test_a_short_log_of_one_word_is_shown() -> None:
    assert log_tail("Killed\n", lines=LINES, size=SIZE) == "Killed\n"
    assert termination_message("Killed\n") == "Killed"


def test_a_long_message_keeps_its_end() -> None:
    assert one_line("a word " * 400 + "and the cause").endswith("and the cause")
    assert HIDDEN in one_line("a word " * 400 + "key=abc")
