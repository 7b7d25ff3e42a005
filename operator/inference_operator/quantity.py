"""Kubernetes quantities in canonical form: the form in which the API server stores them.

Rules (apimachinery 0.36, pkg/api/resource/quantity.go, CanonicalizeBytes): no fractions; the largest suffix that needs
no fraction; the suffix family of the input (decimal or binary) if it can express the amount exactly.
The quantities of pods are first rounded up to thousandths (Kubernetes 1.36, pkg/apis/core/v1/defaults.go).
"""

from decimal import ROUND_CEILING, Decimal
from functools import lru_cache

_DECIMAL = {"m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"": 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_SMALLEST_BINARY = 1024
_KEPT = 1024
"""Quantities whose results are kept: a decision needs 90 of them, mostly the same ones as the decision before."""


@lru_cache(_KEPT)
def value(quantity: str) -> Decimal:
    """The numeric value of a quantity.

    Examples:
        >>> value("1500m"), value("1Ki")
        (Decimal('1.500'), Decimal('1024'))
    """
    number = quantity.rstrip("mkKMGTPEi")
    suffix = quantity[len(number) :]
    if suffix.endswith("i"):
        return Decimal(number) * (1 << _BINARY[suffix])
    return Decimal(number) * Decimal(1).scaleb(_DECIMAL[suffix])


def multiplied(quantity: str, factor: float) -> str:
    """The quantity times a factor in canonical form. The suffix family stays, so memory stays a binary amount.

    Examples:
        >>> multiplied("16Gi", 1.5), multiplied("3", 1.1), multiplied("250m", 2.0)
        ('24Gi', '3300m', '500m')
    """
    product = value(quantity) * Decimal(str(factor))
    if quantity.endswith("i"):
        return canonical(f"{(product / _SMALLEST_BINARY).to_integral_value(ROUND_CEILING)}Ki")
    return canonical(f"{(product * 1000).to_integral_value(ROUND_CEILING)}m")


@lru_cache(_KEPT)
def canonical(quantity: str) -> str:
    """The quantity as the API server stores it, rounded up to thousandths."""
    thousandths = int((value(quantity) * 1000).to_integral_value(ROUND_CEILING))
    whole, rest = divmod(thousandths, 1000)
    # An amount that is no multiple of 1024 is stored without a suffix, and read back as decimal.
    if quantity.endswith("i") and not rest and whole and whole % _SMALLEST_BINARY == 0:
        return _binary(whole)
    return _decimal(thousandths)


def _binary(amount: int) -> str:
    suffix = max((s for s, power in _BINARY.items() if amount % (1 << power) == 0), key=_BINARY.__getitem__)
    return f"{amount >> _BINARY[suffix]}{suffix}"


def _decimal(thousandths: int) -> str:
    if thousandths == 0:
        return "0"
    fitting = (s for s, power in _DECIMAL.items() if thousandths % 10 ** (power + 3) == 0)
    suffix = max(fitting, key=_DECIMAL.__getitem__)
    return f"{thousandths // 10 ** (_DECIMAL[suffix] + 3)}{suffix}"
