"""A certificate of this cloud's own for 127.0.0.1: gcloud carries a tunnel over TLS only, and believes the file it is
told (`core/custom_ca_certs_file`). Made anew at each start; nobody else has reason to trust it.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_LIFETIME = datetime.timedelta(days=825)


def serve_with(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """A context to serve TLS with, and the certificate's file below `folder`, which clients may be told to believe."""
    key = ec.generate_private_key(ec.SECP256R1())
    certificate, secret = folder / "tunnel.pem", folder / "tunnel.key"
    _write(certificate, _certificate(key).public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    _write(secret, key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, secret)
    secret.unlink()
    return context, certificate


def _certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tpuops embedded cloud")])
    now = datetime.datetime.now(datetime.UTC)
    where = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + _LIFETIME)
        .add_extension(where, critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )


def _write(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(data)
