"""Where the server's address and the credentials come from: arguments, the environment, the CLI's login.

The file of the logins is the CLI's (`~/.config/callboard/credentials.json`). A refresh token counts once, so a
renewal holds the file's lock, reads the login again and writes the new tokens before it uses them, as the CLI does.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from ._core import server_url
from .errors import ConfigurationError

DEFAULT_SERVER = "http://127.0.0.1:8080"
MARGIN = timedelta(seconds=30)
LOCK_PATIENCE = 75.0
LOCK_PAUSE = 0.02


class Credentials:
    """An API key, a login of the CLI, or neither."""

    def __init__(self, key: str | None = None, login: Login | None = None) -> None:
        self.login = login
        self._key = key

    @property
    def token(self) -> str | None:
        return self.login.token if self.login else self._key


def find(server: str | None, api_key: str | None) -> tuple[httpx.URL, Credentials]:
    """The address and the credentials, in the order of the CLI."""
    logins = _read(_path())
    address = server or os.environ.get("CALLBOARD_SERVER") or logins.get("current") or DEFAULT_SERVER
    url = server_url(str(address))
    key = api_key or os.environ.get("CALLBOARD_API_KEY") or _key_file(os.environ.get("CALLBOARD_API_KEY_FILE"))
    if key:
        key = key.strip()
        if not key.isascii() or not key.isprintable():
            raise ConfigurationError("the API key has characters that no key has")
        return url, Credentials(key=key)
    name = str(url).rstrip("/")
    found = (logins.get("logins") or {}).get(name)
    return url, Credentials(login=Login(name, found) if found else None)


def _key_file(path: str | None) -> str | None:
    if not path:
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the key in CALLBOARD_API_KEY_FILE cannot be read: {error}") from None


def _path() -> Path | None:
    config = os.environ.get("XDG_CONFIG_HOME", "")
    if os.path.isabs(config):
        return Path(config, "callboard", "credentials.json")
    home = os.environ.get("HOME")
    return Path(home, ".config", "callboard", "credentials.json") if home else None


def _read(path: Path | None) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes()) if path else {}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"{path} cannot be read: {error}") from None
    return found if isinstance(found, dict) else {}


class Login:
    """A login of the CLI at one server."""

    def __init__(self, server: str, found: Mapping[str, Any]) -> None:
        self._server = server
        self._found = dict(found)

    @property
    def token(self) -> str:
        return str(self._found["token"])

    def ends_soon(self) -> bool:
        try:
            end = datetime.fromisoformat(str(self._found["expiresAt"]).replace("Z", "+00:00"))
        except (KeyError, ValueError):
            return False
        return end - MARGIN <= datetime.now(timezone.utc)

    def lock(self) -> LoginLock:
        return LoginLock(_path())

    def read_again(self, path: Path) -> None:
        """Reads the login, which another program may have renewed."""
        found = (_read(path).get("logins") or {}).get(self._server)
        if not found:
            raise self.ended()
        self._found = dict(found)

    @property
    def refresh_token(self) -> str:
        return str(self._found["refreshToken"])

    def renewed(self, path: Path, session: Mapping[str, Any]) -> None:
        """Writes the tokens of the answer to a refresh: all of the change is on disk, or nothing of it."""
        user = session["user"]
        self._found = {
            "email": user["email"], "role": user["role"], "token": session["token"],
            "refreshToken": session["refreshToken"], "expiresAt": session["expiresAt"],
        }
        logins = _read(path)
        logins.setdefault("logins", {})[self._server] = self._found
        draft = path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            json.dump(logins, file, indent=2, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, path)

    def ended(self) -> ConfigurationError:
        return ConfigurationError(f"the login at {self._server} has ended: `callboard auth login`, or an API key")


class LoginLock:
    """The lock of the file of the logins; `taken` tries once more to take it."""

    def __init__(self, path: Path | None) -> None:
        if path is None:
            raise ConfigurationError("the login cannot be renewed: neither XDG_CONFIG_HOME nor HOME is set")
        self.path = path
        self._file = open(path.with_suffix(".lock"), "a", opener=lambda name, flags: os.open(name, flags, 0o600))

    def taken(self) -> bool:
        # Only the CLI's machines have logins, and the CLI runs on Linux.
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def __enter__(self) -> LoginLock:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._file.close()
