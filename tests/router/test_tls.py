"""The Lua script that loads a renewed certificate: when a chain ends, and whose key it takes."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from importlib.resources import files

import lupa.lua54
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

KEY = ec.generate_private_key(ec.SECP256R1())
MAKE_KEY: dict[str, Callable[[], CertificateIssuerPrivateKeyTypes]] = {
    "P-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "P-384": lambda: ec.generate_private_key(ec.SECP384R1()),
    "P-521": lambda: ec.generate_private_key(ec.SECP521R1()),
    "RSA": lambda: rsa.generate_private_key(65537, 2048),
}
FORMATS = {
    "PKCS 8": serialization.PrivateFormat.PKCS8,
    "traditional": serialization.PrivateFormat.TraditionalOpenSSL,
}
NEWEST = datetime(9999, 12, 31, 23, 59, 59)  # noqa: DTZ001 - hypothesis adds the time zone
ENDS = st.datetimes(datetime(1970, 1, 2), NEWEST, timezones=st.just(UTC))  # noqa: DTZ001 - as above


def _script() -> tuple[Callable[[bytes | None], int | None], Callable[[bytes, bytes], bool]]:
    source = files("inference_operator.router").joinpath("tls.lua").read_bytes()
    first_end, is_pair = lupa.lua54.LuaRuntime(encoding=None).execute(source)
    return first_end, is_pair


FIRST_END, IS_PAIR = _script()


def certificate(
    end: datetime, *, issuer: str = "ca", serial: int = 1, key: CertificateIssuerPrivateKeyTypes = KEY
) -> bytes:
    """A certificate in PEM."""
    builder = x509.CertificateBuilder(
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]),
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "router")]),
        key.public_key(),
        serial,
        end - timedelta(days=1),
        end,
    )
    return builder.sign(KEY, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


@given(ENDS, st.text("abc xyz", min_size=1, max_size=64), st.integers(1, 2**159 - 1))
def test_the_end_of_any_certificate_is_read(end: datetime, issuer: str, serial: int) -> None:
    assert FIRST_END(certificate(end, issuer=issuer, serial=serial)) == int(end.replace(microsecond=0).timestamp())


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


def pem(key: CertificateIssuerPrivateKeyTypes, private_format: serialization.PrivateFormat) -> bytes:
    return key.private_bytes(serialization.Encoding.PEM, private_format, serialization.NoEncryption())


@pytest.mark.parametrize("kind", MAKE_KEY)
@pytest.mark.parametrize("private_format", FORMATS.values(), ids=FORMATS)
def test_a_certificate_is_paired_with_its_own_key_only(kind: str, private_format: serialization.PrivateFormat) -> None:
    own, other, authority = (MAKE_KEY[kind]() for _ in range(3))
    end = datetime(2030, 1, 1, tzinfo=UTC)
    chain = certificate(end, key=own) + certificate(end, key=authority)
    assert IS_PAIR(chain, pem(own, private_format))
    assert not IS_PAIR(chain, pem(other, private_format))
    assert not IS_PAIR(chain, pem(authority, private_format))


def test_the_key_of_another_kind_is_not_paired() -> None:
    chain = certificate(datetime(2030, 1, 1, tzinfo=UTC))
    assert not IS_PAIR(chain, pem(MAKE_KEY["RSA"](), serialization.PrivateFormat.PKCS8))


def test_the_parameters_of_a_curve_before_a_key_are_no_key() -> None:
    chain = certificate(datetime(2030, 1, 1, tzinfo=UTC))
    parameters = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"
    assert IS_PAIR(chain, parameters + pem(KEY, serialization.PrivateFormat.TraditionalOpenSSL))


def test_a_key_that_does_not_hold_its_public_key_is_left_to_haproxy() -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    chain = certificate(datetime(2030, 1, 1, tzinfo=UTC), key=key)
    assert IS_PAIR(chain, pem(key, serialization.PrivateFormat.PKCS8))
    assert IS_PAIR(b"no certificate", b"no key")
