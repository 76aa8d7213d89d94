"""A server elsewhere must prove its identity; if it cannot, one line says why, and nothing is sent."""

import ssl
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support.machines import Fleet
from tests.support.runner import Project
from tests.support.tls import (
    Certificate,
    TlsFront,
    make_authority,
    make_certificate,
    tls_front,
)

from ralph.storage.team_url import check_url, users_authorities_file

HOST = "db.example.com"


@dataclass(frozen=True, slots=True)
class Workshop:
    """A folder with a certificate authority."""

    folder: Path
    authority: Certificate

    def certificate(self, host: str = HOST, *, is_expired: bool = False) -> Certificate:
        """Return a certificate that the authority signed."""
        return make_certificate(
            self.folder / "server.pem", host, self.authority, is_expired=is_expired
        )

    def self_signed(self) -> Certificate:
        """Return a certificate that nobody else signed."""
        return make_certificate(self.folder / "server.pem", HOST, None)

    def of_a_stranger(self) -> Certificate:
        """Return a certificate of an authority that this machine does not know."""
        stranger = make_authority(self.folder / "stranger.pem")
        return make_certificate(self.folder / "server.pem", HOST, stranger)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    folder = tmp_path / "certificates"
    folder.mkdir()
    return Workshop(folder, make_authority(folder / "authority.pem"))


def socket_of(fleet: Fleet) -> Path:
    return fleet.postgres.folder / ".s.PGSQL.5432"


def url_of(fleet: Fleet, front: TlsFront, authority: Path | None) -> str:
    """Return the URL of a host elsewhere, whose address is that of the front."""
    url = f"postgresql://{fleet.role('ann')}@{HOST}:{front.port}/{fleet.database}"
    url += "?hostaddr=127.0.0.1"
    if authority is not None:
        url += f"&sslrootcert={authority}"
    return url


def project_with_a_memory(fleet: Fleet) -> Project:
    fleet.join("ann", "shop")
    root = fleet.folder / "shop"
    root.mkdir()
    ralph = Project(root)
    assert ralph("init").code == 0
    assert ralph("memory", "add", "Deploy on Tuesdays", "-t", "fix").code == 0
    return ralph


def share(ralph: Project, fleet: Fleet, url: str) -> None:
    """Join and push with the documented commands, and check that the row arrives."""
    for words in (["team", "join", url], ["trust", "--yes"], ["team", "sync"]):
        said = ralph(*words)
        assert (said.code, said.err.count("error")) == (0, 0), said.err
    assert "Deploy on Tuesdays" in fleet.dump()


def test_a_certificate_of_the_given_authority_is_accepted(fleet: Fleet, workshop: Workshop) -> None:
    ralph = project_with_a_memory(fleet)
    with tls_front(workshop.certificate(), socket_of(fleet)) as front:
        share(ralph, fleet, url_of(fleet, front, workshop.authority.path))


def test_a_self_signed_certificate_that_the_url_names_is_accepted(
    fleet: Fleet, workshop: Workshop
) -> None:
    ralph = project_with_a_memory(fleet)
    certificate = workshop.self_signed()
    with tls_front(certificate, socket_of(fleet)) as front:
        share(ralph, fleet, url_of(fleet, front, certificate.path))


def test_a_certificate_of_an_authority_of_the_system_is_accepted(
    fleet: Fleet, workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(workshop.authority.path))
    ralph = project_with_a_memory(fleet)
    with tls_front(workshop.certificate(), socket_of(fleet)) as front:
        share(ralph, fleet, url_of(fleet, front, None))


def test_the_authorities_of_the_system_are_found_without_a_setting(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    authorities = check_url(f"postgresql://ann@{HOST}/shop")["sslrootcert"]
    if authorities == "system":
        pytest.skip("this system has no file with certificate authorities")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(authorities)
    assert context.cert_store_stats()["x509_ca"] > 0


BAD: dict[str, tuple[Callable[[Workshop], Certificate], str, str]] = {
    "wrong host": (
        lambda workshop: workshop.certificate("other.example.com"),
        "is for another host, other.example.com",
        "use that name",
    ),
    "expired": (
        lambda workshop: workshop.certificate(is_expired=True),
        "has expired",
        "renews it",
    ),
    "self-signed": (Workshop.self_signed, "is self-signed", "sslrootcert=FILE"),
    "unknown authority": (
        Workshop.of_a_stranger,
        "is signed by an unknown authority",
        "sslrootcert=FILE",
    ),
}


@pytest.mark.parametrize(("make", "what", "todo"), BAD.values(), ids=BAD.keys())
def test_a_bad_certificate_is_one_line_and_nothing_is_sent(
    fleet: Fleet,
    workshop: Workshop,
    make: Callable[[Workshop], Certificate],
    what: str,
    todo: str,
) -> None:
    ralph = project_with_a_memory(fleet)
    with tls_front(workshop.certificate(), socket_of(fleet)) as front:
        url = url_of(fleet, front, workshop.authority.path)
        for words in (["team", "join", url], ["trust", "--yes"]):
            assert ralph(*words).code == 0
    with tls_front(make(workshop), socket_of(fleet), port=front.port) as front:
        for words in (["team", "sync"], ["team", "join", url], ["team", "status"]):
            said = ralph(*words)
            assert said.code == 1
            line = said.out if words == ["team", "status"] else said.err.splitlines()[0]
            assert f"the certificate of the team's server {what}" in line
            assert HOST in line
            if words != ["team", "status"]:
                assert len(said.err.splitlines()) == 2
                assert todo in said.err.splitlines()[1]
        assert front.connections > 0
        assert front.received_bytes == 0
    assert "Deploy on Tuesdays" not in fleet.dump()


def test_a_server_elsewhere_without_tls_is_refused(fleet: Fleet, workshop: Workshop) -> None:
    ralph = project_with_a_memory(fleet)
    with tls_front(None, socket_of(fleet)) as front:
        said = ralph("team", "join", url_of(fleet, front, workshop.authority.path))
        assert front.received_bytes == 0
    assert (said.code, len(said.err.splitlines())) == (1, 2)
    assert "does not offer TLS" in said.err


def test_a_missing_file_with_authorities_is_named_as_the_cause(
    fleet: Fleet, workshop: Workshop
) -> None:
    ralph = project_with_a_memory(fleet)
    with tls_front(workshop.certificate(), socket_of(fleet)) as front:
        said = ralph("team", "join", url_of(fleet, front, workshop.folder / "missing.pem"))
        assert front.received_bytes == 0
    assert (said.code, len(said.err.splitlines())) == (1, 2)
    assert "check sslrootcert" in said.err


def test_the_users_authorities_are_where_libpq_looks_for_them_on_windows() -> None:
    env = {"APPDATA": "/Users/ann/AppData/Roaming"}
    expected = Path("/Users/ann/AppData/Roaming/postgresql/root.crt")
    assert users_authorities_file(env, "win32") == expected
