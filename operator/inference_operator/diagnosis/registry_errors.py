"""What registries of images answer, by the words that container runtimes and Go's clients pass on, and what helps."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from inference_operator.api.reasons import Reason
from inference_operator.text_tables import blocks
from inference_operator.views.pod import PodProblem

_WAIT = re.compile(r"retry-after: ?(\d{1,6}(?:\.\d{1,6})?(?:[mµn]?s|m|h)?)\b", re.IGNORECASE)
"""As GitHub's registry tells it in its message; a client shows no header."""


@dataclass(frozen=True, slots=True)
class RegistryError:
    words: re.Pattern[str]
    problem: str
    on_node: str
    in_job: str


def _error(words: str, problem: str, *cures: str) -> RegistryError:
    return RegistryError(re.compile(words), problem, *("" if cure == "-" else cure for cure in cures))


ERRORS: Sequence[RegistryError] = [_error(*block) for block in blocks(__package__, "registry-errors")]


def registry_error(text: str) -> RegistryError | None:
    return next((error for error in ERRORS if error.words.search(text)), None)


def pull_cure(text: str) -> str:
    error = registry_error(text)
    return with_wait(error.on_node, text) if error else ""


def problem_cure(problem: PodProblem) -> str:
    """What helps against a problem of a pod by its message; empty if the message does not tell."""
    return problem.cure or (pull_cure(problem.cause) if problem.reason is Reason.IMAGE_PULL_FAILED else "")


def with_wait(cure: str, text: str) -> str:
    wait = _WAIT.search(text)
    return cure.replace("{wait}", f" {wait[1]}" if wait else "")
