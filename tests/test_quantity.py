from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference_operator.quantity import canonical, value

QUANTITIES = st.builds(
    "{}{}{}".format,
    st.integers(0, 9_999),
    st.sampled_from(["", ".5", ".25", ".125", ".0", ".001", ".123456"]),
    st.sampled_from(["m", "", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti", "Pi"]),
)
EXACT = QUANTITIES.filter(lambda quantity: value(quantity) * 1000 % 1 == 0)


@pytest.mark.parametrize(
    ("written", "stored"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("0.0", "0"),
        ("1", "1"),
        ("2", "2"),
        ("0.5", "500m"),
        ("500m", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("0.0001", "1m"),
        ("1024", "1024"),
        ("12000", "12k"),
        ("1.5G", "1500M"),
        ("1000M", "1G"),
        ("1024M", "1024M"),
        ("4Gi", "4Gi"),
        ("4096Mi", "4Gi"),
        ("1536Mi", "1536Mi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Gi", "512Mi"),
        ("0.5Ki", "512"),
        ("1Ki", "1Ki"),
        ("1025Ki", "1025Ki"),
        ("1.0001Ki", "1024103m"),
        ("1Ei", "1Ei"),
    ],
)
def test_a_canonical_quantity_equals_the_form_that_the_api_server_stores(written: str, stored: str) -> None:
    assert canonical(written) == stored


@given(EXACT)
def test_a_canonical_quantity_has_the_value_of_the_original(quantity: str) -> None:
    assert value(canonical(quantity)) == value(quantity)


@given(QUANTITIES)
def test_a_canonical_quantity_is_rounded_up_by_less_than_a_thousandth(quantity: str) -> None:
    assert 0 <= value(canonical(quantity)) - value(quantity) < Decimal("0.001")


@given(QUANTITIES)
def test_a_canonical_quantity_stays_the_same_when_converted_again(quantity: str) -> None:
    assert canonical(canonical(quantity)) == canonical(quantity)


@given(QUANTITIES)
def test_a_canonical_quantity_has_no_fraction(quantity: str) -> None:
    assert "." not in canonical(quantity)
