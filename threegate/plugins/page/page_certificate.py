"""A certificate for the page that accepts passkeys, from a CA that can certify nothing else.

Invariant: the CA is constrained to one host name, and its private key is never written, so importing the CA
means trusting only this certificate. The server's key is in tool-exec/control/, which agents cannot read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from threegate.core import durable, limits
from threegate.core.errors import Unavailable
from threegate.core.workspace import Workspace

_AUTHORITY, _CHAIN, _KEY = "approve-ca.pem", "approve-cert.pem", "approve-key.pem"


@dataclass(frozen=True, slots=True)
class MadeCertificate:
    """The CA's file, its SHA-256 fingerprint as browsers show it, and the certificate's last day."""

    authority: Path
    fingerprint: str
    until: datetime


def certificate_files(workspace: Workspace) -> tuple[Path, Path]:
    """The certificate that was created here, and its key. Raises Unavailable if there is none."""
    files = workspace.control / _CHAIN, workspace.control / _KEY
    if not all(path.is_file() for path in files):
        raise Unavailable("no certificate: give --cert and --key-file, or type: threegate serve passkeys --make-ca")
    return files


def make_certificate(workspace: Workspace, host: str) -> MadeCertificate:
    """Create and write CA, certificate and key, replacing earlier ones. Raises Unavailable."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import ExtendedKeyUsageOID

    from threegate.setup.certificates import certificate_pem, certify, common_name, new_key, private_pem

    days = limits.PAGE_CERTIFICATE_DAYS
    authority_key, key, issuer = new_key(), new_key(), common_name(f"ThreeGate for {host}"[:64])
    authority = certify(
        issuer,
        authority_key.public_key(),
        issuer,
        authority_key,
        days=days,
        authority=True,
        extensions=[(x509.NameConstraints([x509.DNSName(host)], None), True)],
    )
    certificate = certify(
        x509.Name([]),
        key.public_key(),
        issuer,
        authority_key,
        days=days,
        extensions=[
            (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False),
            (x509.SubjectAlternativeName([x509.DNSName(host)]), True),
        ],
    )
    try:
        durable.overwrite(workspace.control / _KEY, private_pem(key), 0o600)
        durable.overwrite(workspace.control / _CHAIN, certificate_pem(certificate), 0o600)
        durable.overwrite(workspace.control / _AUTHORITY, certificate_pem(authority), 0o644)
    except OSError as error:
        raise Unavailable(
            f"{workspace.control}: cannot be written ({os.strerror(error.errno or 0)}); run this as the workspace's "
            "operator"
        ) from None
    return MadeCertificate(
        workspace.control / _AUTHORITY,
        authority.fingerprint(hashes.SHA256()).hex(":").upper(),
        certificate.not_valid_after_utc,
    )
