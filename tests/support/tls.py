"""A certificate authority, and a server that speaks TLS in front of a PostgreSQL server without it.

The PostgreSQL server of the wheel is built without TLS. `TlsFront` performs the handshake as PostgreSQL does, passes
the decrypted bytes on to the server's socket, and counts what clients sent through it.
"""

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_SSL_REQUEST = struct.pack("!II", 8, 80877103)
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate with its key, both in one file in PEM format."""

    path: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


def make_authority(path: Path) -> Certificate:
    """Create a certificate authority, which is named after its file."""
    return _certify(path, f"The authority {path.stem}", issuer=None, is_authority=True)


def make_certificate(
    path: Path, host: str, issuer: Certificate | None, *, is_expired: bool = False
) -> Certificate:
    """Create the certificate of a host. Without an issuer, it is signed with its own key."""
    return _certify(path, host, issuer, is_expired=is_expired)


def _certify(
    path: Path,
    name: str,
    issuer: Certificate | None,
    *,
    is_authority: bool = False,
    is_expired: bool = False,
) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    end = now - timedelta(days=1) if is_expired else now + timedelta(days=1)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer is not None else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
    )
    if not is_authority:
        names = x509.SubjectAlternativeName([x509.DNSName(name)])
        builder = builder.add_extension(names, critical=False)
    certificate = builder.sign(issuer.key if issuer is not None else key, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    return Certificate(path, certificate, key)


class TlsFront:
    """Accepts TLS connections for a PostgreSQL server on a Unix socket.

    Without a certificate, it refuses TLS as a server that has none.
    """

    def __init__(self, certificate: Certificate | None, server_socket: Path, port: int) -> None:
        self._context: ssl.SSLContext | None = None
        if certificate is not None:
            self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._context.load_cert_chain(certificate.path)
        self._server_socket = server_socket
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.connections = 0
        self.received_bytes = 0
        """Bytes that clients sent after the handshake."""

    def serve(self) -> None:
        """Accept connections until the listening socket is shut down."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._handle, args=(client,), daemon=True).start()

    def _handle(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            if client.recv(len(_SSL_REQUEST), socket.MSG_WAITALL) != _SSL_REQUEST:
                return
            if self._context is None:
                client.sendall(b"N")
                self.received_bytes += len(client.recv(_CHUNK))
                return
            client.sendall(b"S")
            with (
                self._context.wrap_socket(client, server_side=True) as secured,
                socket.socket(socket.AF_UNIX) as server,
            ):
                server.connect(str(self._server_socket))
                back = threading.Thread(target=_copy, args=(server, secured), daemon=True)
                back.start()
                with suppress(OSError):
                    while data := secured.recv(_CHUNK):
                        self.received_bytes += len(data)
                        server.sendall(data)
                server.shutdown(socket.SHUT_WR)
                back.join()

    def close(self) -> None:
        """Stop accepting connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(_CHUNK):
            target.sendall(data)


@contextmanager
def tls_front(
    certificate: Certificate | None, server_socket: Path, port: int = 0
) -> Iterator[TlsFront]:
    """Run a `TlsFront` in a thread, on a free port unless one is given."""
    front = TlsFront(certificate, server_socket, port)
    thread = threading.Thread(target=front.serve, daemon=True)
    thread.start()
    try:
        yield front
    finally:
        front.close()
        thread.join()
