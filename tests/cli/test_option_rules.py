"""`infd arguments`: who may set the arguments and variables of engines."""

import json

import pytest

from inference_operator.engines.registry import ENGINES
from tests.cli.conftest import Infd


@pytest.mark.parametrize(
    ("word", "name", "who"),
    [
        ("max_num_seq", "--max-num-seqs", "nobody"),
        ("seed", "--seed", "whoever may write the resource"),
        ("trust-remote-code", "--trust-remote-code", "who may create pods, if the administrator allows it by name"),
        ("LD_PRELOAD", "LD_PRELOAD", "who may create pods, if the administrator allows it by name"),
        ("api-key", "--api-key", "nobody"),
    ],
)
def test_who_may_set_an_argument_is_said(infd: Infd, word: str, name: str, who: str) -> None:
    found = json.loads(infd("arguments", word, "-o", "json")[1])["items"]
    assert [rule["who"] for rule in found if rule["name"] == name] == [who]


def test_a_word_that_no_name_has_is_not_found(infd: Infd) -> None:
    status, said, complaints = infd("arguments", "otter")
    assert (status, said) == (3, "")
    assert complaints.endswith("It needs the right to create pods.\n")
    assert infd("arguments", "otter", "--engine=LlamaCpp")[2].endswith("It is refused.\n")


@pytest.mark.parametrize("kind", ENGINES.by_name)
def test_every_class_is_that_of_the_policy(infd: Infd, kind: str) -> None:
    """What the command prints is what the admission policy enforces."""
    classes, rules = ENGINES[kind].option_classes, json.loads(infd("arguments", "--engine", kind, "-o", "json")[1])
    by_name = {name: rule["who"] for rule in rules["items"] for name in rule["name"].split(", ")}
    assert all(by_name[name] == "whoever may write the resource" for name in classes.safe & by_name.keys())
    assert all(by_name[name].startswith("nobody") for name in classes.managed & by_name.keys())
    assert len(classes.safe & by_name.keys()) > 1
