"""The login of the command line."""

from __future__ import annotations

import json
import stat
import threading
from pathlib import Path
from typing import Any

import callboard
import pytest
from callboard import errors

from .conftest import EMAIL, PASSWORD, AsSync, Server


@pytest.fixture(params=["sync", "async"])
def login(request: Any, loop: Any, server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The file of the logins, and a function that makes clients of it."""
    for name in ("SERVER", "API_KEY", "API_KEY_FILE"):
        monkeypatch.delenv(f"CALLBOARD_{name}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with callboard.Callboard(server.url, "none") as cb:
        session = cb.sessions.log_in(EMAIL, PASSWORD)
    path = tmp_path / "callboard/credentials.json"
    path.parent.mkdir()
    found = {"email": EMAIL, "role": "admin", "token": session.token, "refreshToken": session.refresh_token,
             "expiresAt": session.expires_at.isoformat().replace("+00:00", "Z")}
    path.write_text(json.dumps({"current": server.url, "logins": {server.url: found, "http://other": {}}}))
    path.chmod(0o600)

    def connect() -> Any:
        return callboard.Callboard() if request.param == "sync" else AsSync(loop, callboard.AsyncCallboard())

    return path, connect


def test_the_login_is_used(login: Any) -> None:
    assert login[1]().sessions.who().user.email == EMAIL


def test_a_login_is_renewed_once_by_many(login: Any, server: Server) -> None:
    path, connect = login
    before = json.loads(path.read_text())
    before["logins"][server.url]["expiresAt"] = "2026-01-01T00:00:00.000Z"
    path.write_text(json.dumps(before))
    clients, names = [connect() for _ in range(4)], []
    threads = [threading.Thread(target=lambda cb=cb: names.append(cb.sessions.who().user.email)) for cb in clients]
    for it in threads:
        it.start()
    for it in threads:
        it.join(30)
    assert names == [EMAIL] * 4
    after = json.loads(path.read_text())
    assert after["logins"][server.url]["refreshToken"] != before["logins"][server.url]["refreshToken"]
    assert after["logins"]["http://other"] == {} and after["current"] == server.url
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_refused_token_is_renewed(login: Any, server: Server) -> None:
    path, connect = login
    found = json.loads(path.read_text())
    found["logins"][server.url]["token"] = found["logins"][server.url]["token"][:-3] + "AAA"
    path.write_text(json.dumps(found))
    cb = connect()
    assert cb.tasks.list().total() >= 0
    assert json.loads(path.read_text())["logins"][server.url]["token"] != found["logins"][server.url]["token"]


def test_a_login_that_ended_says_what_to_do(login: Any, server: Server) -> None:
    path, connect = login
    found = json.loads(path.read_text())
    found["logins"][server.url] |= {"expiresAt": "2026-01-01T00:00:00Z", "refreshToken": "used"}
    path.write_text(json.dumps(found))
    with pytest.raises(errors.ConfigurationError, match="callboard auth login"):
        connect().tasks.list().total()
