"""The cluster's certificate authority and what it signs."""

import datetime as dt
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = dt.timedelta(days=365)
"""Long enough for any cluster on a developer's machine; a new `up` makes new certificates."""
_SIGNS = x509.KeyUsage(
    digital_signature=True,
    key_cert_sign=True,
    crl_sign=True,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    encipher_only=False,
    decipher_only=False,
)
_CLOCK_SKEW = dt.timedelta(minutes=5)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who a certificate speaks for: Kubernetes reads the user from the name and the groups from organizations."""

    file: str
    user: str
    group: str = ""
    hosts: tuple[str, ...] = ()


class Authority:
    """A new certificate authority that writes what it signs into one folder as NAME.crt and NAME.key."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("inference-operator-cluster", "")
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        certificate = (
            self._builder(self._name, self._key.public_key())
            .add_extension(constraints, critical=True)
            .add_extension(_SIGNS, critical=True)
        )
        self._write("ca", self._key, certificate)

    def issue(self, identity: Identity) -> None:
        """Write a certificate and its key for clients and servers alike."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(identity.user, identity.group)
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
        certificate = self._builder(subject, key.public_key()).add_extension(usage, critical=False)
        if identity.hosts:
            hosts = x509.SubjectAlternativeName(list(_general_names(identity.hosts)))
            certificate = certificate.add_extension(hosts, critical=False)
        self._write(identity.file, key, certificate)

    def issue_key(self, file: str) -> None:
        """Write a bare key, such as the one that signs service account tokens."""
        self._write_key(file, ec.generate_private_key(ec.SECP256R1()))

    def _builder(self, subject: x509.Name, public_key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        """Both key identifiers stand in every certificate: Python 3.13 checks by RFC 5280 to the letter."""
        now = dt.datetime.now(dt.UTC)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _CLOCK_SKEW)
            .not_valid_after(now + LIFETIME)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
            .add_extension(issuer, critical=False)
        )

    def _write(self, file: str, key: ec.EllipticCurvePrivateKey, certificate: x509.CertificateBuilder) -> None:
        signed = certificate.sign(self._key, hashes.SHA256())
        (self._directory / f"{file}.crt").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        self._write_key(file, key)

    def _write_key(self, file: str, key: ec.EllipticCurvePrivateKey) -> None:
        path = self._directory / f"{file}.key"
        path.touch(mode=0o600)
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )


def _name(user: str, group: str) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(attributes)


def _general_names(hosts: Iterable[str]) -> Iterable[x509.GeneralName]:
    for host in hosts:
        try:
            yield x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            yield x509.DNSName(host)
