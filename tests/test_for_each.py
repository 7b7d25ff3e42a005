"""A test over many cases names each that offends, whatever it raises."""

import pytest

from tests.testing.for_each import for_each

CASES: dict[str, str | int | None] = {"one": 1, "none": 0, "text": "a", "two": 2, "failed": None}


def test_each_offender_is_named_with_its_reason() -> None:
    asserted = []

    @for_each(CASES)
    def positive(name: str) -> None:
        asserted.append(name)
        value = CASES[name]
        if value is None:
            pytest.fail("there is none")
        assert int(value) > 0, "it is not positive"

    with pytest.raises(AssertionError) as caught:
        positive()
    assert asserted == list(CASES)
    text = str(caught.value)
    assert text.startswith("3 of 5 offend:\nnone: AssertionError: it is not positive\n")
    assert "\ntext: ValueError: invalid literal for int()" in text
    assert "\nfailed: Failed: there is none" in text
    assert "\none:" not in text


def test_two_offenders_of_one_name_are_both_counted() -> None:
    @for_each([(0, 1), (0, 2)], named=lambda pair: pair[0])
    def equal(pair: tuple[int, int]) -> None:
        assert pair[0] == pair[1]

    with pytest.raises(AssertionError, match="2 of 2 offend"):
        equal()


def test_a_test_without_cases_fails() -> None:
    @for_each(())
    def nothing(_: object) -> None:
        """Never called."""

    with pytest.raises(AssertionError, match="there are no cases"):
        nothing()


@for_each(CASES)
def test_pytest_gives_each_case_and_no_fixture(case: str) -> None:
    assert case in CASES
