"""Find the system's certificate authorities, and explain why a server's certificate was rejected.

libpq only reports that verification failed. The reason comes from a second handshake, with
Python's `ssl`, in which nothing but the request for TLS is sent.
"""

from __future__ import annotations

import re
import socket
import ssl
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt",  # Debian, Ubuntu, Arch
    "/etc/pki/tls/certs/ca-bundle.crt",  # Fedora, Red Hat
    "/etc/ssl/ca-bundle.pem",  # SUSE
    "/etc/ssl/cert.pem",  # macOS, Alpine, FreeBSD
)
"""Where systems keep the authorities that they trust, in one file."""
_LIBPQ_SYSTEM = "system"
_SSL_REQUEST = struct.pack("!II", 8, 80877103)  # its length in bytes, and PostgreSQL's code for it
_TLS_ACCEPTED = b"S"
_DEFAULT_PORT = 5432

_USE_AUTHORITY = (
    "add sslrootcert=FILE to the URL, with the certificate of the authority that signed it; "
    "the server's administrator has that file"
)

_OTHER_HOST = re.compile(r'server certificate for "(?P<name>[^"]*)".* does not match host name')
"""Matches libpq's message about a certificate with another name."""


class TlsProblem(NamedTuple):
    """Why the connection to a server is not secure, and what to do about it."""

    message: str
    hint: str


class _Reason(NamedTuple):
    """A problem, and a part of the message by which libpq or OpenSSL reports it."""

    fragment: str
    problem: TlsProblem


_REASONS = (
    _Reason(
        "has expired",
        TlsProblem(
            "the certificate of the team's server has expired", "its administrator renews it"
        ),
    ),
    _Reason(
        "not yet valid",
        TlsProblem(
            "the certificate of the team's server is not valid yet",
            "check the clock of this machine",
        ),
    ),
    _Reason(
        "self-signed certificate in certificate chain",
        TlsProblem(
            "the certificate of the team's server is signed by an unknown authority",
            _USE_AUTHORITY,
        ),
    ),
    _Reason(
        "self-signed certificate",
        TlsProblem("the certificate of the team's server is self-signed", _USE_AUTHORITY),
    ),
    _Reason(
        "unable to get local issuer certificate",
        TlsProblem(
            "the certificate of the team's server is signed by an unknown authority",
            _USE_AUTHORITY,
        ),
    ),
    _Reason(
        "does not support SSL",
        TlsProblem(
            "the team's server does not offer TLS",
            "its administrator sets `ssl = on`; only a server on this machine may go without",
        ),
    ),
    _Reason(
        "root certificate file",
        TlsProblem(
            "the file with the certificate authorities cannot be read",
            "check sslrootcert in the URL, the service file or PGSSLROOTCERT",
        ),
    ),
    _Reason(
        "certificate verify failed",
        TlsProblem(
            "the certificate of the team's server was rejected",
            "its administrator checks it with `openssl s_client -starttls postgres`",
        ),
    ),
)
"""Problems in the order in which they are looked for. The last one is the least specific."""


def system_authorities() -> str:
    """Return the file with the authorities that this system trusts, or libpq's name for them.

    The binary packages of psycopg contain their own OpenSSL. It looks for the authorities in a
    folder that systems do not have, so libpq's own `system` would reject every certificate.
    """
    places = [ssl.get_default_verify_paths().cafile, *_BUNDLES]
    for place in places:
        if place and Path(place).is_file():
            return place
    return _LIBPQ_SYSTEM


def explain_tls(message: str, parameters: Mapping[str, Any]) -> TlsProblem | None:
    """Return why libpq did not get a secure connection, or None if there was another reason.

    `message` is libpq's, and `parameters` are those of the connection.
    """
    other_host = _OTHER_HOST.search(message)
    if other_host is not None:
        return TlsProblem(
            f"the certificate of the team's server is for another host, {other_host['name']}",
            "use that name in the URL, or ask the administrator for a certificate with your name",
        )
    reported = message
    if "certificate verify failed" in message:
        reported = f"{_handshake_error(parameters)} {message}"
    for reason in _REASONS:
        if reason.fragment in reported:
            return reason.problem
    return None


def _handshake_error(parameters: Mapping[str, Any]) -> str:
    """Return OpenSSL's reason for rejecting a server's certificate, or "" if it cannot be found.

    With several hosts, it is not known which of them was rejected.
    """
    host = str(parameters.get("host", ""))
    address = str(parameters.get("hostaddr") or host)
    authorities = str(parameters.get("sslrootcert", ""))
    if "," in address or not Path(authorities).is_file():
        return ""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    port = int(parameters.get("port") or _DEFAULT_PORT)
    timeout = float(parameters["connect_timeout"])
    try:
        context.load_verify_locations(authorities)
        with socket.create_connection((address, port), timeout) as connection:
            connection.sendall(_SSL_REQUEST)
            if connection.recv(len(_TLS_ACCEPTED)) == _TLS_ACCEPTED:
                context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        return error.verify_message
    except (OSError, ValueError):  # for example, a host name that Python does not accept
        return ""
    return ""
