"""A certificate for the page that takes passkeys, from an authority that can certify nothing else.

Invariant: the authority is confined to one host name, and its private key is never written: whoever imports it trusts
this one certificate. The server's key is in tool-exec/control/, which agents cannot read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import Unavailable
from threegate.core.workspace import Workspace

_AUTHORITY, _CHAIN, _KEY = "approve-ca.pem", "approve-cert.pem", "approve-key.pem"


@dataclass(frozen=True, slots=True)
class MadeCertificate:
    """The authority's file, its SHA-256 fingerprint as browsers show it, and the certificate's last day."""

    authority: Path
    fingerprint: str
    until: datetime


def certificate_files(workspace: Workspace) -> tuple[Path, Path]:
    """The certificate that was made here, and its key. Raises Unavailable when there is none."""
    files = workspace.control / _CHAIN, workspace.control / _KEY
    if not all(path.is_file() for path in files):
        raise Unavailable(
            "no certificate: give --cert and --key-file, or type: threegate serve approve --make-ca"
        )
    return files


def make_certificate(workspace: Workspace, host: str) -> MadeCertificate:
    """Make and write authority, certificate and key, in place of earlier ones. Raises Unavailable."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    now = datetime.now(UTC).replace(microsecond=0)
    until = now + timedelta(days=limits.PAGE_CERTIFICATE_DAYS)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"ThreeGate for {host}"[:64])])

    def usage(*, signs: bool) -> x509.KeyUsage:
        off = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign"),
            False,
        )
        return x509.KeyUsage(
            digital_signature=not signs, key_cert_sign=signs, encipher_only=False, decipher_only=False, **off
        )

    def begun(name: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(issuer).public_key(public)
        builder = builder.serial_number(x509.random_serial_number()).not_valid_after(until)
        builder = builder.not_valid_before(now - timedelta(hours=1))
        return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)

    authority = (
        begun(issuer, authority_key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage(signs=True), critical=True)
        .add_extension(x509.NameConstraints([x509.DNSName(host)], None), critical=True)
        .sign(authority_key, hashes.SHA256())
    )
    known = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    certificate = (
        begun(x509.Name([]), key.public_key())
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=True)
        .add_extension(known, critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    try:
        durable.overwrite(workspace.control / _KEY, private, 0o600)
        durable.overwrite(workspace.control / _CHAIN, certificate.public_bytes(pem), 0o600)
        durable.overwrite(workspace.control / _AUTHORITY, authority.public_bytes(pem), 0o644)
    except OSError as error:
        raise Unavailable(
            f"{workspace.control}: cannot be written ({os.strerror(error.errno or 0)}); run this as the workspace's operator"
        ) from None
    return MadeCertificate(
        workspace.control / _AUTHORITY, authority.fingerprint(hashes.SHA256()).hex(":").upper(), until
    )
