"""The Lua script that reads the keys file: which lines it takes, and that nothing else becomes a key."""

import hashlib
import io
import string
from collections.abc import Callable
from dataclasses import replace
from importlib.resources import files
from typing import Any

import lupa.lua54
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference_operator.api.router import RouterSpec
from inference_operator.cli.main import main
from inference_operator.router.haproxy import haproxy_cfg
from tests.router.test_haproxy import PREFIX_AFFINITY

HASH = hashlib.sha256(b"sk-1").hexdigest()
OTHER = hashlib.sha256(b"sk-2").hexdigest()

Parsed = Callable[[bytes], tuple[Any, int, Any]]


def _script() -> Parsed:
    source = files("inference_operator.router").joinpath("keys.lua").read_bytes()
    script: Parsed = lupa.lua54.LuaRuntime(encoding=None).execute(source)
    return script


PARSED = _script()


def marked(text: str | bytes) -> tuple[dict[str, tuple[str, str]], int, list[int]]:
    """Users and their marks by hash, the number of users, and the numbers of skipped lines."""
    raw = text.encode() if isinstance(text, str) else text
    users, count, skipped = PARSED(raw)
    found = {key.decode(): entry.decode().split(":") for key, entry in users.items()}
    return {key: (user, mark(first, user)) for key, (first, user, _) in found.items()}, count, list(skipped.values())


def parsed(text: str | bytes) -> tuple[dict[str, str], int, list[int]]:
    """The same without marks."""
    users, count, skipped = marked(text)
    return {key: user for key, (user, _) in users.items()}, count, skipped


def mark(first: str, user: str) -> str:
    """Of the first hash in the file and a name."""
    return hashlib.sha256(f"{first}:{user}".encode()).hexdigest()[:16]


def test_infd_tells_the_users_behind_marks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = f"# people\nbroken\n-x: {HASH}\n bob : {OTHER.upper()}\r\nalice: {HASH} priority=Low\nbob: {HASH}\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(text))
    with pytest.raises(SystemExit) as ended:
        main(["key", "marks"])
    assert not ended.value.code
    shown = capsys.readouterr().out.splitlines()
    assert sorted(shown) == sorted(f"{mark} {user}" for user, mark in marked(text)[0].values())


def test_a_mark_stays_through_a_rotation_and_cannot_be_computed_from_the_name_alone() -> None:
    before = marked(f"bob: {OTHER.upper()}\nalice: {HASH}")[0]
    assert before == {OTHER: ("bob", mark(OTHER, "bob")), HASH: ("alice", mark(OTHER, "alice"))}
    rotated = hashlib.sha256(b"sk-3").hexdigest()
    assert marked(f"bob: {OTHER}\nalice: {rotated}")[0][rotated] == before[HASH]
    assert marked(f"alice: {HASH}\nbob: {OTHER}")[0][HASH][1] == mark(HASH, "alice") != before[HASH][1]


@pytest.mark.parametrize(
    ("text", "classes"),
    [
        (f"alice: {HASH}\nbob: {OTHER}", (0, 0)),
        (f"alice: {HASH} priority=High\nbob: {OTHER} priority=Low\r\n", (-1, 1)),
        (f"alice: {HASH}\nalice: {OTHER} priority=Low\nbob: {OTHER}", (1, 1)),
        (f"alice: {HASH} priority=High\nalice: {OTHER} priority=Low", (1, 1)),
    ],
)
def test_all_keys_of_a_user_have_the_last_priority_that_is_stated(text: str, classes: tuple[int, int]) -> None:
    users = PARSED(text.encode())[0]
    assert tuple(int(users[key.encode()].rpartition(b":")[2]) for key in (HASH, OTHER)) == classes


@pytest.mark.parametrize("priority", ["priority=", "priority=high", "priority=1", "High", "priority=High Low"])
def test_a_line_with_another_word_is_skipped(priority: str) -> None:
    assert parsed(f"bob: {OTHER}\nalice: {HASH} {priority}") == ({OTHER: "bob"}, 1, [2])


@pytest.mark.parametrize(
    "text",
    [
        f"alice: {HASH}",
        f"alice:{HASH}\n",
        f"  alice :  {HASH}  \r\n",
        f"# people\n\nalice: {HASH.upper()}\n",
        f"alice: {HASH}\nalice: {HASH}\n",
    ],
)
def test_a_line_with_a_user_and_a_hash_is_a_key(text: str) -> None:
    assert parsed(text) == ({HASH: "alice"}, 1, [])


def test_a_user_may_have_several_keys() -> None:
    assert parsed(f"alice: {HASH}\nalice: {OTHER}") == ({HASH: "alice", OTHER: "alice"}, 1, [])


def test_a_key_belongs_to_the_user_of_its_first_line() -> None:
    assert parsed(f"alice: {HASH}\nbob: {HASH}") == ({HASH: "alice"}, 1, [2])


@pytest.mark.parametrize(
    "line",
    [
        "alice",
        "alice:",
        f"alice {HASH}",
        f"alice: {HASH[:-1]}",
        f"alice: {HASH}0",
        f"alice: {HASH} # note",
        f": {HASH}",
        f"-alice: {HASH}",
        f'al"ice: {HASH}',
        f"al ice: {HASH}",
        f"{'a' * 64}: {HASH}",
        f"älice: {HASH}",
        "sk-plain-key",
    ],
)
def test_another_line_is_skipped_and_named_by_its_number(line: str) -> None:
    assert parsed(f"bob: {OTHER}\n{line}\n") == ({OTHER: "bob"}, 1, [2])


LINE = st.one_of(
    st.builds("{}: {}".format, st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,62}", fullmatch=True), st.just(HASH)),
    st.text(string.printable, max_size=120),
    st.text(string.hexdigits + ": \r\n#", max_size=200),
)


def _check(raw: bytes) -> None:
    users, count, skipped = parsed(raw)
    lines = raw.split(b"\n")
    for key, user in users.items():
        assert any(key.encode() in one.lower() and one.strip().startswith(user.encode()) for one in lines)
    assert count == len(set(users.values()))
    assert all(1 <= number <= len(lines) for number in skipped)


@given(st.lists(LINE, max_size=20))
def test_only_what_stands_in_the_file_becomes_a_key(lines: list[str]) -> None:
    _check("\n".join(lines).encode())


@given(st.binary(max_size=500))
def test_any_bytes_are_read_without_an_error(raw: bytes) -> None:
    _check(raw)


@pytest.mark.full
@settings(max_examples=100_000)
@given(st.one_of(st.binary(max_size=300), st.lists(LINE, max_size=8).map(lambda lines: "\n".join(lines).encode())))
def test_a_hundred_thousand_damaged_files_are_read_without_an_error(raw: bytes) -> None:
    _check(raw)


def test_a_file_of_the_largest_size_of_a_secret_is_read_as_a_whole() -> None:
    lines = [f"user-{number}: {hashlib.sha256(str(number).encode()).hexdigest()}" for number in range(12_000)]
    users, count, skipped = parsed("\n".join(lines)[: 1 << 20])
    assert (len(users), count, skipped) == (12_000, 12_000, [])


def test_the_key_of_a_user_is_no_affinity_key() -> None:
    """Otherwise all requests of a user would go to one engine."""
    keyed = RouterSpec.model_validate({"strategy": "PrefixAffinity", "keys": {"secretRef": {"name": "keys"}}})
    configs = [haproxy_cfg(one) for one in (PREFIX_AFFINITY, replace(PREFIX_AFFINITY, spec=keyed))]
    without, with_keys = ([line for line in text.splitlines() if "txn.key)" in line] for text in configs)
    assert without == with_keys != []
