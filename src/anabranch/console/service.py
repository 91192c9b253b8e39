"""The console as a running service, in a thread of the program that it shows."""

from __future__ import annotations

import ipaddress
import socket
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anabranch.console import access as access_
from anabranch.console.access import Access
from anabranch.errors import MissingExtra, QueryError, ResourceError

if TYPE_CHECKING:
    from anabranch.engine.engine import Engine
    from anabranch.spark.filters.filter import Filter

PORT = 8765
LOOPBACK = "127.0.0.1"
START_SECONDS = 10.0
STOP_SECONDS = 3


class Service:
    """A console that runs; `url` opens it in a browser, `stop` ends it.

    Use `serve` or `Engine.serve` to get one.
    """

    def __init__(self, server: Any, listener: socket.socket, console: Any, url: str, access: Access, hub: Any) -> None:
        self._server = server
        self._console = console
        run = partial(server.run, sockets=[listener])
        self._thread = threading.Thread(target=run, name="anabranch-console", daemon=True)
        self._access = access
        self._hub = hub
        self.address = url

    @property
    def url(self) -> str:
        """The address with the operator's token, behind `#`, where it is not sent or logged."""
        return f"{self.address}/login#{self._access.operator}"

    @property
    def viewer_url(self) -> str:
        """The address with the token of those who may look only."""
        return f"{self.address}/login#{self._access.viewer}"

    @property
    def running(self) -> bool:
        """Whether it answers."""
        return self._thread.is_alive()

    def watch(self, name: str, watched: Filter) -> None:
        """Show one more filter."""
        self._hub.watch(name, watched)
        self._hub.look()

    def stop(self) -> None:
        """End the service; the engine goes on."""
        if self._thread.is_alive():
            self._server.should_exit = True
            self._console.live.stop_soon()
            self._thread.join()
        self._hub.stop()
        self._console.close()

    def __enter__(self) -> Service:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"<console at {self.address}>"

    def _repr_html_(self) -> str:
        return f'<p>Console: <a href="{self.url}" target="_blank" rel="noreferrer">{self.address}</a></p>'

    def _start(self) -> None:
        self._hub.start()
        self._thread.start()
        waited = threading.Event()
        for _ in range(int(START_SECONDS / 0.02)):
            if self._server.started or not self._thread.is_alive():
                break
            waited.wait(0.02)
        if not self._server.started:
            self.stop()
            raise ResourceError(
                f"the console cannot listen on {self.address}", hint="is the port taken? choose another"
            )


def serve(
    engine: Engine | None = None,
    *,
    port: int = PORT,
    host: str = LOOPBACK,
    allow_remote: bool = False,
    tls_cert: str | Path | None = None,
    tls_key: str | Path | None = None,
    allow: Sequence[str | Path] = (),
    home: str | Path | None = None,
    limits: Any = None,
) -> Service:
    """Serve the console of an engine.

    Parameters
    ----------
    engine
        What is shown; None for filters alone.
    port
        0 takes a free one.
    host
        The address to listen on; one that is not of this machine alone needs `allow_remote` and TLS.
    allow_remote
        Say so to let others in.
    tls_cert, tls_key
        Files of the certificate and its key.
    allow
        Folders below which clients may read and write files; none if not given.
    home
        The folder of tokens and of the audit log; `ANABRANCH_HOME`, or `~/.anabranch`.
    limits
        A `Limits` of sizes, times and rates.
    """
    try:
        import uvicorn

        from anabranch.console.app import Console, guarded
        from anabranch.console.audit import Audit
        from anabranch.console.guard import Limits
        from anabranch.console.hub import Hub
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in ("uvicorn", "starlette", "anyio", "h11"):
            raise
        raise MissingExtra(missing.name or "starlette", "console", needed_for="the console") from missing
    _check_host(host, allow_remote, tls_cert, tls_key)
    folder = access_.home() if home is None else Path(home)
    access, audit, hub = access_.load_access(folder), Audit(folder), Hub(engine)
    secure = tls_cert is not None
    listener = _listener(host, port)
    port = listener.getsockname()[1]
    cookie = f"anabranch-{port}"
    console = Console(hub, access, audit, [Path(each) for each in allow], cookie, secure=secure)
    origins = _origins(host, port, "https" if secure else "http")
    guard = guarded(console, access, origins, cookie, limits or Limits())
    config = uvicorn.Config(
        guard,
        log_level="error",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=STOP_SECONDS,
        h11_max_incomplete_event_size=64 * 1024,
        ssl_certfile=tls_cert,
        ssl_keyfile=tls_key,
        ws="none",
    )
    address = f"{'https' if secure else 'http'}://{_bracketed(host)}:{port}"
    service = Service(uvicorn.Server(config), listener, console, address, access, hub)
    service._start()
    return service


def _check_host(host: str, allow_remote: bool, tls_cert: object, tls_key: object) -> None:
    """Refuse to be reached from elsewhere by accident, or without TLS."""
    for file in (tls_cert, tls_key):
        if file is not None and not Path(str(file)).is_file():
            raise QueryError(f"there is no file {str(file)!r}", hint="give the files of a certificate and its key")
    if (tls_cert is None) != (tls_key is None):
        raise QueryError("TLS needs a certificate and its key", hint="give both tls_cert and tls_key")
    if _is_loopback(host):
        return
    if not allow_remote:
        raise QueryError(
            f"{host} can be reached from elsewhere", hint="say allow_remote=True (--allow-remote), and give TLS files"
        )
    if tls_cert is None:
        raise QueryError(f"{host} can be reached from elsewhere, and needs TLS", hint="give tls_cert and tls_key")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _listener(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(found[0], socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(found[4])
    except OSError as error:
        raise ResourceError(
            f"the console cannot listen on {_bracketed(host)}:{port}: {error.strerror}",
            hint="choose another port; 0 takes a free one",
        ) from None
    return listener


def _origins(host: str, port: int, scheme: str) -> frozenset[str]:
    """The names under which a browser may know the console."""
    names = {host, *(("localhost", "127.0.0.1", "::1") if _is_loopback(host) else (socket.getfqdn(),))}
    default = 443 if scheme == "https" else 80
    known = {f"{scheme}://{_bracketed(name).lower()}:{port}" for name in names}
    if port == default:
        known |= {f"{scheme}://{_bracketed(name).lower()}" for name in names}
    return frozenset(known)
