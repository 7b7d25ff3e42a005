"""One test that asserts the same of many things, and names each offender with its reason.

pytest takes more than a millisecond to collect, schedule and report one item, in each worker that collects it. Where
the assertions take less, `for_each` stands in place of `pytest.mark.parametrize`. A snapshot, a fixture that the test
changes, or seconds of work for each item need `parametrize`.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from inspect import Signature
from typing import TypeVar

import pytest

Case = TypeVar("Case")


def for_each(
    cases: Iterable[Case], *, named: Callable[[Case], object] = str
) -> Callable[[Callable[[Case], None]], Callable[[], None]]:
    """The decorator of a test whose only argument is each of the cases in turn."""
    every = tuple(cases)

    def of_all(assertions: Callable[[Case], None]) -> Callable[[], None]:
        @wraps(assertions)
        def test() -> None:
            assert every, "there are no cases"
            errors = [(str(named(case)), error) for case in every if (error := _error(assertions, case))]
            if errors:
                raise AssertionError(_listing(errors, len(every))) from errors[0][1]

        test.__signature__ = Signature()  # type: ignore[attr-defined]  # pytest reads it: no argument is a fixture
        return test

    return of_all


def _error(assertions: Callable[[Case], None], case: Case) -> BaseException | None:
    try:
        assertions(case)
    except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - a case that raises hides no other offender
        return error
    return None


def _listing(errors: list[tuple[str, BaseException]], total: int) -> str:
    lines = (f"{name}: {type(error).__name__}: {error}" for name, error in errors)
    return "\n".join([f"{len(errors)} of {total} offend:", *lines])
