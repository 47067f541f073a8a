"""A refresh token is spent once: what is lost of it on the way is a login that a person must repeat, and never two."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.tools.authorization_server import Said, make_certificates
from tests.plugins.tools.login_bench import NAME, LoginBench, open_logins
from threegate.core import durable, limits
from threegate.core.errors import Refused, Unavailable
from threegate.plugins.tools.remote.token_store import TokenStore
from threegate.plugins.tools.remote_login import OAuthLogin

AGAIN = f"; type: threegate tools login {NAME}"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return make_certificates(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def logins(tmp_path: Path, certificates: tuple[Path, Path]) -> Iterator[LoginBench]:
    with open_logins(tmp_path, certificates) as made:
        yield made


@pytest.fixture
def ended(logins: LoginBench) -> OAuthLogin:
    """A login whose access token has just ended."""
    oauth = logins.log_in()
    logins.keep(expires_at=int(time.time()))
    return oauth


def required(logins: LoginBench, oauth: OAuthLogin) -> str:
    with pytest.raises(Refused) as caught:
        logins.headers(oauth)
    assert caught.value.code == "login_required" and str(caught.value).endswith(AGAIN)
    for token in ("at-", "rt-"):
        assert token not in str(caught.value)
    return str(caught.value).removesuffix(AGAIN).removeprefix(f"{NAME}: ")


def in_child(work: Callable[[], bytes]) -> tuple[int, bytes]:
    """The exit code of a process of its own, and what it returned."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, work())
        except BaseException:
            os._exit(1)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        said = pipe.read()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said


@pytest.mark.parametrize("operation", ["create", "write", "sync", "replace"])
def test_a_process_that_dies_while_it_writes(logins: LoginBench, ended: OAuthLogin, operation: str) -> None:
    """The authorization server gave new tokens, and they are nowhere: the old ones are void."""
    before = logins.file.read_bytes()

    def dying() -> bytes:
        durable.observe(lambda moment, done, path: os._exit(9) if (moment, done) == ("before", operation) else None)
        return logins.token(ended).encode()

    assert in_child(dying) == (9, b"") and logins.file.read_bytes() == before
    assert required(logins, ended) == "its login is not valid any more (invalid_grant)"
    asked = len(logins.servers.sent("/token"))
    assert required(logins, ended) == "its login has expired"
    assert len(logins.servers.sent("/token")) == asked, "a void token is not tried again"
    logins.log_in_again(ended)
    assert logins.servers.is_valid(logins.token(ended))


def test_a_process_that_dies_when_it_has_written(logins: LoginBench, ended: OAuthLogin) -> None:
    def dying() -> bytes:
        durable.observe(lambda moment, done, path: os._exit(9) if (moment, done) == ("after", "replace") else None)
        return logins.token(ended).encode()

    assert in_child(dying) == (9, b"")
    assert logins.servers.is_valid(logins.token(ended)) and len(logins.servers.sent("/token")) == 2


def test_a_disk_that_is_full(logins: LoginBench, ended: OAuthLogin) -> None:
    """What came is not used: it would be lost with the next start."""

    def full(moment: str, done: str, path: str) -> None:
        if (moment, done) == ("before", "write"):
            raise OSError(28, "No space left on device")

    stop = durable.observe(full)
    try:
        says = required(logins, ended)
    finally:
        stop()
    assert says == f"its new token was lost: {NAME}: its login cannot be written (No space left on device)"
    assert required(logins, ended) == "its login is not valid any more (invalid_grant)"
    assert [path.name for path in logins.file.parent.glob(".tmp-*")] == []


@pytest.mark.parametrize("processes", [True, False])
def test_two_refreshers_at_once(logins: LoginBench, ended: OAuthLogin, processes: bool) -> None:
    """One refreshes, and the other one gets its token: a second use of a refresh token would revoke both."""

    def get(_: int) -> bytes:
        if processes:
            code, said = in_child(lambda: logins.token(ended).encode())
            assert code == 0
            return said
        return logins.token(ended).encode()

    with ThreadPoolExecutor(6) as pool:
        (token,) = set(pool.map(get, range(6)))
    assert logins.servers.is_valid(token.decode()) and len(logins.servers.sent("/token")) == 2


def test_a_login_that_is_removed_while_it_is_refreshed_stays_removed(logins: LoginBench, ended: OAuthLogin) -> None:
    """Its server was removed: the new tokens would stay on the disk."""
    store, removing = TokenStore(logins.settings, NAME), []

    def remove(path: str, said: Said) -> Said:
        if path == "/token" and not removing:
            removing.append(threading.Thread(target=store.forget))
            removing[0].start()
            removing[0].join(0.3)
        return said

    logins.servers.altered = remove
    assert logins.servers.is_valid(logins.token(ended))
    removing[0].join(10)
    assert not removing[0].is_alive() and not logins.file.exists()
    store.forget()


def test_an_answer_that_does_not_arrive(logins: LoginBench, ended: OAuthLogin) -> None:
    """Nothing is repeated now; the next call finds out what became of it."""
    logins.servers.dropped = lambda path: path == "/token"
    with pytest.raises(Unavailable, match="the token endpoint: "):
        logins.headers(ended)
    assert len(logins.servers.sent("/token")) == 2
    logins.servers.dropped = lambda path: False
    assert required(logins, ended) == "its login is not valid any more (invalid_grant)"


def test_a_token_endpoint_that_is_down_for_a_while(logins: LoginBench, ended: OAuthLogin) -> None:
    logins.servers.altered = lambda path, said: Said(503, b"", {}) if path == "/token" else said
    before = logins.file.read_bytes()
    with pytest.raises(Unavailable, match="answers with status 503"):
        logins.headers(ended)
    assert logins.file.read_bytes() == before


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"access_token": "x", "token_type": "Bearer", "scope": "read write admin"}', "scopes that nobody signed"),
        (b'{"access_token": "x", "token_type": "Bearer", "access_token": "y"}', "twice"),
        (b"{}", "field required"),
    ],
)
def test_an_answer_that_cannot_be_taken(logins: LoginBench, ended: OAuthLogin, body: bytes, says: str) -> None:
    """More scopes are never taken by the way."""
    logins.servers.altered = lambda path, said: Said(200, body, {}) if path == "/token" else said
    assert says in required(logins, ended)


def test_a_token_endpoint_that_leads_elsewhere(logins: LoginBench, ended: OAuthLogin) -> None:
    elsewhere = Said(307, b"", {"Location": "https://169.254.169.254/"})
    logins.servers.altered = lambda path, said: elsewhere if path == "/token" else said
    with pytest.raises(Refused, match="leads elsewhere") as caught:
        logins.headers(ended)
    assert caught.value.code == "url_refused"


def test_an_error_that_is_none(logins: LoginBench, ended: OAuthLogin) -> None:
    logins.servers.altered = lambda path, said: Said(400, b"<html>", {}) if path == "/token" else said
    assert required(logins, ended) == "its login is not valid any more (an error without a plain code)"


def test_without_a_refresh_token_it_ends(logins: LoginBench, ended: OAuthLogin) -> None:
    logins.keep(refresh_token="", expires_at=int(time.time()) + 50)
    assert logins.servers.is_valid(logins.token(ended)), "it is good to its end"
    logins.keep(expires_at=int(time.time()))
    assert required(logins, ended) == "its login has expired"
    assert len(logins.servers.sent("/token")) == 1


def _no_file(file: Path) -> None:
    file.unlink()


def _open_to_others(file: Path) -> None:
    file.chmod(0o640)


def _linked(file: Path) -> None:
    other = file.with_name("other")
    file.rename(other)
    file.symlink_to(other)


def _second_name(file: Path) -> None:
    os.link(file, file.with_name("second"))


def _half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:60])


def _another_form(file: Path) -> None:
    file.write_bytes(b'{"bound_to": 1}')


def _not_json(file: Path) -> None:
    file.write_bytes(b"[1]")


@pytest.mark.parametrize(
    "change",
    [_no_file, _open_to_others, _linked, _second_name, _half, _another_form, _not_json],
    ids=lambda one: one.__name__,
)
def test_a_file_that_cannot_be_trusted(logins: LoginBench, change: Callable[[Path], Any]) -> None:
    oauth = logins.log_in()
    change(logins.file)
    assert required(logins, oauth) == "nobody is logged in"
    assert len(logins.servers.sent("/token")) == 1


def test_a_process_that_keeps_the_lock(logins: LoginBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that was stopped in the middle: a call ends all the same."""
    oauth = logins.log_in()
    monkeypatch.setattr(limits, "LOGIN_LOCK_SECONDS", 0.2)
    with logins.file.with_suffix(".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(Unavailable, match=f"{NAME}: another process is busy with its login; try again"):
            logins.headers(oauth)
    assert logins.servers.is_valid(logins.token(oauth))


def test_a_state_folder_that_cannot_be_written(logins: LoginBench, monkeypatch: pytest.MonkeyPatch) -> None:
    oauth = logins.log_in()
    lock = logins.file.with_suffix(".lock")
    lock.unlink()
    lock.symlink_to("/nonexistent/lock")
    with pytest.raises(Unavailable, match=f"{NAME}: its login cannot be locked"):
        logins.headers(oauth)
