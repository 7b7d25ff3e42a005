"""The Lua script that loads a renewed certificate: when a chain ends."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import lupa.lua54
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

KEY = ec.generate_private_key(ec.SECP256R1())
NEWEST = datetime(9999, 12, 31, 23, 59, 59)  # noqa: DTZ001 - hypothesis adds the time zone
ENDS = st.datetimes(datetime(1970, 1, 2), NEWEST, timezones=st.just(UTC))  # noqa: DTZ001 - as above


def _script() -> Callable[[bytes | None], int | None]:
    source = files("inference_operator.router").joinpath("tls.lua").read_bytes()
    script: Callable[[bytes | None], int | None] = lupa.lua54.LuaRuntime(encoding=None).execute(source)
    return script


FIRST_END = _script()


def certificate(end: datetime, *, issuer: str = "ca", serial: int = 1) -> bytes:
    """A certificate in PEM."""
    builder = x509.CertificateBuilder(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "router")]),
        KEY.public_key(),
        serial,
        end - timedelta(days=1),
        end,
    )
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@given(ENDS, st.text("abc xyz", min_size=1, max_size=64), st.integers(1, 2**159 - 1))
def test_the_end_of_any_certificate_is_read(end: datetime, issuer: str, serial: int) -> None:
    assert FIRST_END(certificate(end, issuer=issuer, serial=serial)) == int(end.timestamp())


def test_of_a_chain_the_first_end_counts() -> None:
    ends = [datetime(2049, 12, 31, 23, 59, 59, tzinfo=UTC), datetime(2028, 2, 29, tzinfo=UTC)]
    ends.append(datetime(2050, 1, 1, tzinfo=UTC))
    chain = b"a comment\n".join(certificate(end) for end in ends)
    assert FIRST_END(chain) == int(ends[1].timestamp())
    assert FIRST_END(chain.replace(b"\n", b"\r\n")) == int(ends[1].timestamp())


@pytest.mark.parametrize("chain", [None, b"", b"no certificate", b"-----BEGIN CERTIFICATE-----\n"])
def test_a_text_without_a_certificate_has_no_end(chain: bytes | None) -> None:
    assert FIRST_END(chain) is None


@given(st.integers(0, 400), st.binary(min_size=1, max_size=4))
def test_a_damaged_certificate_beside_a_valid_one_ends_without_an_error(at: int, damage: bytes) -> None:
    valid = certificate(datetime(2030, 1, 1, tzinfo=UTC))
    damaged = valid[:at] + damage + valid[at + len(damage) :]
    found = FIRST_END(damaged + valid)
    assert found is None or isinstance(found, int)
