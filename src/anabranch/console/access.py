"""Who may do what: tokens, roles, and the cookie of a browser that has shown its token.

There are two tokens: the operator's may change things, the viewer's may look. They are made at the first start and stay
in a file that only its owner can read, `console.json` in the folder `ANABRANCH_HOME` (`~/.anabranch`).

>>> access = Access("secret", "glance", now=lambda: 1000.0)
>>> access.role_of_token("secret"), access.role_of_token("glance"), access.role_of_token("guess")
('operator', 'viewer', None)
>>> cookie = access.cookie("viewer")
>>> access.role_of_cookie(cookie), access.role_of_cookie(cookie.replace("viewer", "operator"))
('viewer', None)
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from anabranch.errors import ResourceError

Role: TypeAlias = Literal["operator", "viewer"]
COOKIE_SECONDS = 12 * 3600
TOKEN_BYTES = 32
FILE = "console.json"


@dataclass(frozen=True)
class Access:
    """Checks tokens and cookies in constant time."""

    operator: str
    viewer: str
    now: Callable[[], float] = time.time

    def role_of_token(self, given: str) -> Role | None:
        """The role that a token gives."""
        is_operator = hmac.compare_digest(given.encode(), self.operator.encode())
        is_viewer = hmac.compare_digest(given.encode(), self.viewer.encode())
        return "operator" if is_operator else "viewer" if is_viewer else None

    def cookie(self, role: Role) -> str:
        """A cookie for a role, which names the time at which it was made."""
        said = f"{role}.{int(self.now())}"
        return f"{said}.{self._signed(said)}"

    def role_of_cookie(self, cookie: str) -> Role | None:
        """The role of a cookie that was made here, and is not too old."""
        said, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signed(said).encode()):
            return None
        role, _, made = said.partition(".")
        if self.now() - int(made) > COOKIE_SECONDS:
            return None
        return "operator" if role == "operator" else "viewer"

    def _signed(self, said: str) -> str:
        key = f"{self.operator} {self.viewer}".encode()
        return hmac.new(key, said.encode(), hashlib.sha256).hexdigest()


def home() -> Path:
    """The folder of tokens and of the audit log."""
    return Path(os.environ.get("ANABRANCH_HOME") or Path.home() / ".anabranch")


def load_access(folder: Path) -> Access:
    """The tokens of a folder, which are made if there are none."""
    file = folder / FILE
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            made = {"operator": secrets.token_urlsafe(TOKEN_BYTES), "viewer": secrets.token_urlsafe(TOKEN_BYTES)}
            write_private(file, json.dumps(made))
        saved = json.loads(file.read_text())
        return Access(saved["operator"], saved["viewer"])
    except (OSError, ValueError, KeyError) as error:
        raise ResourceError(
            f"the tokens of the console in {file} cannot be used: {error}",
            hint="delete the file, or set ANABRANCH_HOME to a folder of your own",
        ) from error


def write_private(file: Path, text: str) -> None:
    """Write a file that only its owner can read; an earlier one is replaced as a whole."""
    beside = file.with_name(f".{file.name}.{os.getpid()}")
    beside.unlink(missing_ok=True)
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w") as out:
        out.write(text)
    beside.replace(file)
