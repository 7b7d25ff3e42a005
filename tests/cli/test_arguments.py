"""The command line itself: options in any order, wrong words, and the help."""

import argparse
import re
import shlex
from collections.abc import Iterator
from itertools import permutations

import pytest

from inference_operator import __version__
from inference_operator.cli.main import APART, COMMANDS, parser
from inference_operator.cli.parser import UsageError
from tests.cli.conftest import Infd
from tests.testing.for_each import for_each

PARSER = parser()
FEW = 3
"""Options of a command that are tried in all orders; each of the others is tried at each place."""
VALUES = ("3", "0.5", "0.32.0", "2s", "to-zero")
"""Values, of which each option takes one."""
HELP_COLUMNS = 80


def actions_of(one: argparse.ArgumentParser) -> list[argparse.Action]:
    return one._actions  # noqa: SLF001 - argparse shows its arguments in no other way


def leaves(one: argparse.ArgumentParser, *name: str) -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """The commands that do something, with the words that choose them."""
    below = [action for action in actions_of(one) if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    if not below:
        yield name, one
    for action in below:
        for word, child in action.choices.items():
            yield from leaves(child, *name, word)


LEAVES = dict(leaves(PARSER))


WITHOUT_FORMS = {"chat", "ui", "gateway chat", "download", "prune", "completion", "crd", "policy"}
"""Commands that print an answer as it comes, a program, or YAML for kubectl; and those for pods, which print JSON."""


def test_all_other_commands_have_a_form_for_programs() -> None:
    has_form = {" ".join(name): any(a.dest == "output" for a in actions_of(one)) for name, one in LEAVES.items()}
    assert {name for name, has in has_form.items() if not has} == WITHOUT_FORMS


def value(action: argparse.Action) -> str:
    """A value that the argument takes."""
    if action.choices:
        return str(next(iter(action.choices)))
    for text in VALUES:
        try:
            action.type(text) if callable(action.type) else None
        except (ValueError, TypeError, argparse.ArgumentTypeError):
            continue
        return text
    raise AssertionError(action)


def words_of(action: argparse.Action) -> tuple[str, ...]:
    """The words of an argument, its longest name first."""
    names = action.option_strings[-1:]
    return tuple(names) if action.nargs == 0 else (*names, value(action))


def orders(command: argparse.ArgumentParser) -> Iterator[list[list[tuple[str, ...]]]]:
    """Arguments in all orders that must mean the same."""
    groups = command._mutually_exclusive_groups  # noqa: SLF001 - as above
    exclusive = [(one.required, one._group_actions) for one in groups]  # noqa: SLF001 - as above
    apart = {action.dest for _, group in exclusive for action in group}
    alone = [action for action in actions_of(command) if action.dest not in {"help", *apart}]
    chosen = [next(one for one in group if one.option_strings) for is_needed, group in exclusive if is_needed]
    needed = [*chosen, *(one for one in alone if one.required or not one.option_strings)]
    names = [*map(words_of, needed), *(words_of(one) for one in needed if one.nargs == "+")]
    free = [words_of(one) for one in alone if one not in needed]
    yield [list(order) for order in permutations([*names, *free[:FEW]])]
    for option in free[FEW:]:
        yield [[*names[:place], option, *names[place:]] for place in range(len(names) + 1)]


@pytest.mark.parametrize("name", LEAVES, ids=" ".join)
def test_the_order_of_options_means_nothing(name: tuple[str, ...]) -> None:
    tried = 0
    for same in orders(LEAVES[name]):
        found = []
        for order in same:
            names = [word for part in order if not part[0].startswith("-") for word in part]
            again = iter(sorted(names))  # the order of names does mean something, so they stay in one
            words = [next(again) if not part[0].startswith("-") else word for part in order for word in part]
            found.append(vars(PARSER.parse_args([*name, *words])))
            tried += 1
        assert all(one == found[0] for one in found)
    assert tried


@pytest.mark.parametrize(
    ("line", "same"),
    [
        ('chat qwen -n team "Hello"', 'chat qwen "Hello" -n team'),
        ("status --why -n team qwen", "status qwen --why -n team"),
        ("-n team list", "list -n team"),
        ("-nteam --context=prod list -o json", "list -n team --context prod -o json"),
        ("--kubeconfig file cache list", "cache list --kubeconfig file"),
        ("cache -n team list", "cache list -n team"),
        ("logs -fn team qwen", "logs qwen -f -n team"),
        ("logs --tail -1 qwen", "logs qwen --tail=-1"),
        ("chat -n team -- qwen --help", "chat qwen -n team -- --help"),
        ('chat qwen "-5 degrees" --max-tokens 5', 'chat qwen --max-tokens 5 -- "-5 degrees"'),
        ("plan -f - --gpu L4:4 -f b.yaml", "plan -f - -f b.yaml --gpu L4:4"),
        ("chat qwen --max 5 Hello", "chat qwen Hello --max-tokens 5"),
    ],
)
def test_two_lines_mean_the_same(line: str, same: str) -> None:
    assert vars(PARSER.parse_args(shlex.split(line))) == vars(PARSER.parse_args(shlex.split(same)))


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("get", "infd: there is no command `get`. Did you mean `infd list`?\nSee `infd --help`."),
        ("ls", "infd: there is no command `ls`. Did you mean `infd list`?\nSee `infd --help`."),
        ("delete x", "infd: there is no command `delete`. Did you mean `kubectl delete infd`?\nSee `infd --help`."),
        ("statsu qwen", "infd: there is no command `statsu`. Did you mean `infd status`?\nSee `infd --help`."),
        ("zebra", "infd: there is no command `zebra`.\nSee `infd --help`."),
        (
            "cache prun",
            "infd cache: there is no command `prun`. Did you mean `infd cache prune`?\nSee `infd cache --help`.",
        ),
        ("list --live", "infd list: unrecognized arguments: --live\nSee `infd list --help`."),
        (
            "list --namespce=a",
            "infd list: unrecognized arguments: --namespce=a. Did you mean `--namespace`?\nSee `infd list --help`.",
        ),
        ("list --foo bar", "infd list: unrecognized arguments: --foo\nSee `infd list --help`."),
        ("status a b", "infd status: unrecognized arguments: b\nSee `infd status --help`."),
        ("status", "infd status: the following arguments are required: name\nSee `infd status --help`."),
        ("-n", "infd: the following arguments are required: COMMAND\nSee `infd --help`."),
        (
            "chat qwen --max-tokens -o json",
            "infd chat: argument --max-tokens: expected one argument\nSee `infd chat --help`.",
        ),
    ],
)
def test_a_wrong_line_names_what_was_meant_and_the_help_of_its_command(line: str, complaint: str) -> None:
    with pytest.raises(UsageError) as error:
        PARSER.parse_args(shlex.split(line))
    assert str(error.value) == complaint


@pytest.mark.parametrize(
    ("line", "same"), [("", "--help"), ("help", "--help"), ("help list", "list --help"), ("cache", "cache --help")]
)
def test_the_help_is_shown_where_nothing_else_is_asked_for(infd: Infd, line: str, same: str) -> None:
    found = infd(*line.split())
    assert found[0] == 0
    assert found[1].startswith("usage: infd ")
    assert found == infd(*same.split())


def test_the_version_is_a_command_too(infd: Infd) -> None:
    assert infd("version") == infd("--version") == (0, f"{__version__}\n", "")


@pytest.mark.parametrize("name", [(), ("cache",), *LEAVES], ids=" ".join)
def test_help_is_wrapped_and_examples_are_a_block(
    infd: Infd, name: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(HELP_COLUMNS))
    _, shown, _ = infd(*name, "--help")
    prose, _, examples = shown.partition("\nexamples:\n")
    assert max(map(len, prose.splitlines())) <= HELP_COLUMNS
    assert "Examples:" not in prose
    assert all(line.startswith("  ") for line in examples.splitlines())
    commands = [word for line in examples.splitlines() for word in COMMANDS if f"infd {word}" in line]
    assert name[0] in commands if name in LEAVES and name[0] not in APART else not examples


@for_each(re.findall(r"infd [^|>#;)\n]*[^|>#;)\s]", "".join(str(leaf.epilog) for leaf in LEAVES.values())))
def test_every_example_of_the_help_is_a_valid_line(line: str) -> None:
    line = line.partition(" < ")[0].removesuffix('"')
    PARSER.parse_args(shlex.split(line + '"' * (line.count('"') % 2))[1:])
