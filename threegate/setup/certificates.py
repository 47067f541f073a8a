"""X.509 certificates made during setup: for the members of a cluster, and for the page that accepts
passkeys.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def new_key() -> ec.EllipticCurvePrivateKey:
    """A new key on P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def common_name(text: str) -> x509.Name:
    """A name with only a common name."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def certify(
    subject: x509.Name,
    public: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    *,
    days: int,
    authority: bool = False,
    extensions: Sequence[tuple[x509.ExtensionType, bool]] = (),
) -> x509.Certificate:
    """A certificate valid from an hour ago, signed with `key`; each extension comes with its critical
    flag.
    """
    now = datetime.now(UTC).replace(microsecond=0)
    off = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
    usage = x509.KeyUsage(
        digital_signature=not authority,
        key_cert_sign=authority,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
        **dict.fromkeys(off, False),
    )
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(public)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=days))
    for extension, critical in (
        (x509.BasicConstraints(ca=authority, path_length=0 if authority else None), True),
        (usage, True),
        (x509.SubjectKeyIdentifier.from_public_key(public), False),
        (x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), False),
        *extensions,
    ):
        builder = builder.add_extension(extension, critical=critical)
    return builder.sign(key, hashes.SHA256())


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """The certificate as PEM."""
    return certificate.public_bytes(serialization.Encoding.PEM)


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """The key as PEM (PKCS #8), not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
