"""Who gets in, and what gets through: tokens, roles, hosts, origins, sizes, rates, files and functions."""

from __future__ import annotations

import hmac
import http.client
import json
import os
import shutil
import socket
import ssl
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest

from anabranch.console.access import Access, load_access
from anabranch.console.guard import Limits
from anabranch.console.service import serve
from anabranch.console.statements import allowed_statements, require_below
from anabranch.errors import AnabranchError, QueryError
from console.stage import Stage, client_of

if TYPE_CHECKING:
    from pathlib import Path


ADDRESSES = ["/", "/api/overview", "/api/queries", "/api/live", "/api/openapi.json", "/metrics", "/static/app.js"]


@pytest.mark.spark
@pytest.mark.parametrize("path", ADDRESSES)
def test_nothing_is_answered_without_a_token(stage: Stage, path: str) -> None:
    reply = stage.stranger.ask("GET", path)
    assert reply.status == 401
    assert "calls" not in reply.body.decode()
    assert stage.stranger.ask("GET", path, Authorization="Bearer guess").status == 401


@pytest.mark.spark
def test_a_viewer_may_look_only(stage: Stage) -> None:
    assert stage.viewer.get("/api/session") == {"role": "viewer"}
    for method, path, body in (
        ("POST", "/api/queries", {"name": "x", "text": "Select host From calls"}),
        ("DELETE", "/api/queries/busy", None),
        ("POST", "/api/queries/busy/pause", None),
        ("POST", "/api/statements", {"text": "Drop Query busy"}),
        ("PATCH", "/api/settings", {"state_bytes": 5}),
        ("POST", "/api/undo", {}),
    ):
        assert stage.viewer.ask(method, path, body).status == 403
    assert stage.engine.queries["busy"].status == "running"


@pytest.mark.spark
def test_a_browser_gets_a_cookie_that_scripts_and_other_sites_cannot_use(stage: Stage) -> None:
    token = stage.service._access.viewer
    reply = stage.stranger.ask("POST", "/api/login", {"token": token})
    cookie = reply.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert token not in cookie
    pair = cookie.partition(";")[0]
    assert stage.stranger.ask("GET", "/api/session", Cookie=pair).json == {"role": "viewer"}
    assert stage.stranger.ask("GET", "/api/session", Cookie=pair[:-1] + "x").status == 401
    forged = pair.replace("viewer", "operator")
    assert stage.stranger.ask("GET", "/api/session", Cookie=forged).status == 401
    assert stage.stranger.ask("POST", "/api/login", {"token": "guess"}).status == 401


@pytest.mark.spark
def test_other_hosts_and_origins_are_refused(stage: Stage) -> None:
    assert stage.operator.ask("GET", "/api/overview", Host="evil.example").status == 421
    assert stage.operator.ask("POST", "/api/undo", {}, Origin="http://evil.example").status == 403
    assert stage.operator.ask("GET", "/api/overview", Sec_Fetch_Site="cross-site").status == 403
    assert stage.operator.ask("GET", "/api/overview", Origin=stage.service.address).status == 200


@pytest.mark.spark
def test_answers_forbid_scripts_from_elsewhere(stage: Stage) -> None:
    for client, path in ((stage.viewer, "/"), (stage.stranger, "/login"), (stage.viewer, "/api/overview")):
        headers = client.ask("GET", path).headers
        policy = headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
    page = stage.viewer.ask("GET", "/").body.decode()
    assert "<script>" not in page
    assert "style=" not in page


@pytest.mark.spark
@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{" * 5, 422),
        (b'{"text": "' + b"x" * 300_000 + b'"}', 413),
        (b'{"text": "\\ud800"}', 422),
        (b'{"text": NaN}', 422),
        (b"[" * 100_000, 422),
        (b'{"text": 5}', 422),
        (b'{"text": "Select 1", "more": 1}', 422),
    ],
)
def test_bodies_that_do_not_fit_are_refused(stage: Stage, body: bytes, status: int) -> None:
    assert stage.operator.ask("POST", "/api/check", body).status == status


@pytest.mark.spark
def test_a_body_has_to_be_json_by_its_type(stage: Stage) -> None:
    reply = stage.operator.ask("POST", "/api/undo", b"{}", Content_Type="text/plain")
    assert reply.status == 422


@pytest.mark.spark
@pytest.mark.parametrize(
    "path",
    ["/api/queries?limit=0", "/api/queries?limit=x", "/api/queries?nonsense=1", "/api/history?minutes=nan"],
)
def test_parameters_that_do_not_fit_are_refused(stage: Stage, path: str) -> None:
    assert stage.viewer.ask("GET", path).status == 422


@pytest.mark.spark
@pytest.mark.parametrize("path", ["/nothing", "/api/nothing", "/static/..%2Fservice.py", "/static/../app.py"])
def test_there_is_nothing_else(stage: Stage, path: str) -> None:
    assert stage.viewer.ask("GET", path).status == 404


def test_too_many_requests_are_refused(tmp_path: Path) -> None:
    with serve(None, port=0, home=tmp_path, limits=Limits(per_second=0.001, burst=5)) as service:
        client = client_of(service, service._access.viewer)
        assert [client.ask("GET", "/api/session").status for _ in range(7)] == [200] * 5 + [429] * 2


def test_too_many_wrong_tokens_are_refused(tmp_path: Path) -> None:
    with serve(None, port=0, home=tmp_path, limits=Limits(logins_per_second=0.001, login_burst=3)) as service:
        client = client_of(service, None)
        tries = [client.ask("POST", "/api/login", {"token": "guess"}).status for _ in range(5)]
        assert tries == [401] * 3 + [429] * 2


def test_requests_that_are_too_slow_are_refused(tmp_path: Path) -> None:
    with serve(None, port=0, home=tmp_path, limits=Limits(request_seconds=0.2)) as service:
        client = client_of(service, service._access.operator)
        with socket.create_connection((client.host, client.port), timeout=60) as half:
            said = (
                f"POST /api/undo HTTP/1.1\r\nHost: {client.host}:{client.port}\r\nContent-Length: 20\r\n"
                f"Content-Type: application/json\r\nAuthorization: Bearer {client.token}\r\n\r\n{{"
            )
            half.sendall(said.encode())
            assert half.recv(4_096).startswith(b"HTTP/1.1 408 ")
        assert client.ask("GET", "/api/session").status == 200


def test_a_body_that_does_not_say_how_long_it_is_is_limited(tmp_path: Path) -> None:
    with serve(None, port=0, home=tmp_path, limits=Limits(body_bytes=1_000)) as service:
        client = client_of(service, service._access.operator)
        with socket.create_connection((client.host, client.port), timeout=60) as endless:
            said = (
                f"POST /api/undo HTTP/1.1\r\nHost: {client.host}:{client.port}\r\nTransfer-Encoding: chunked\r\n"
                f"Content-Type: application/json\r\nAuthorization: Bearer {client.token}\r\n\r\n"
            )
            endless.sendall(said.encode() + b"800\r\n" + b"x" * 0x800 + b"\r\n")
            assert endless.recv(4_096).startswith(b"HTTP/1.1 413 ")


def test_a_body_that_is_far_too_large_is_answered_though_it_is_sent_at_once(tmp_path: Path) -> None:
    """A client that is cut off in the middle of a body sees no answer."""
    with serve(None, port=0, home=tmp_path, limits=Limits(body_bytes=1_000)) as service:
        client = client_of(service, service._access.operator)
        for _ in range(20):
            assert client.ask("POST", "/api/check", b"x" * 5_000_000).status == 413
        assert client.ask("GET", "/api/session").status == 200


def test_tokens_are_compared_in_constant_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both tokens are compared, whatever is given, by the function that takes as long for any text."""
    compared: list[tuple[bytes, bytes]] = []
    digest = hmac.compare_digest

    def noted(one: bytes, other: bytes) -> bool:
        compared.append((one, other))
        return digest(one, other)

    monkeypatch.setattr("anabranch.console.access.hmac.compare_digest", noted)
    access = Access("operator's", "viewer's")
    for given, role in (("operator's", "operator"), ("viewer's", "viewer"), ("operator'", None), ("", None)):
        compared.clear()
        assert access.role_of_token(given) == role
        assert compared == [(given.encode(), b"operator's"), (given.encode(), b"viewer's")]


@pytest.mark.skipif(shutil.which("openssl") is None, reason="there is no openssl to make a certificate")
def test_other_addresses_are_served_with_tls_alone(tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    call = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2"]
    names = ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*call, "-keyout", str(key), "-out", str(cert), *names], check=True, capture_output=True)
    with serve(None, port=0, tls_cert=cert, tls_key=key, home=tmp_path) as service:
        assert service.address.startswith("https://127.0.0.1:")
        port = int(service.address.rpartition(":")[2])
        known = ssl.create_default_context(cafile=str(cert))
        secure = http.client.HTTPSConnection("127.0.0.1", port, context=known, timeout=60)
        body = json.dumps({"token": service._access.viewer})
        secure.request("POST", "/api/login", body, {"Content-Type": "application/json"})
        reply = secure.getresponse()
        assert reply.status == 200
        assert "Secure" in str(reply.getheader("set-cookie"))
        secure.close()
        plain = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        plain.request("GET", "/api/session")
        with pytest.raises((http.client.HTTPException, OSError)):
            plain.getresponse()
        plain.close()


def test_it_listens_on_this_machine_alone(tmp_path: Path) -> None:
    with serve(None, port=0, home=tmp_path) as service:
        assert service.address.startswith("http://127.0.0.1:")
        (listener,) = service._server.servers[0].sockets
        assert listener.getsockname()[0] == "127.0.0.1"


def test_tokens_are_made_once_and_stay_private(tmp_path: Path) -> None:
    first, second = load_access(tmp_path / "home"), load_access(tmp_path / "home")
    assert (first.operator, first.viewer) == (second.operator, second.viewer)
    assert len(first.operator) >= 40
    assert stat.S_IMODE(os.stat(tmp_path / "home" / "console.json").st_mode) == 0o600


def test_cookies_grow_old() -> None:
    now = [1_000_000.0]
    access = Access("a", "b", now=lambda: now[0])
    cookie = access.cookie("operator")
    assert access.role_of_cookie(cookie) == "operator"
    now[0] += 13 * 3600
    assert access.role_of_cookie(cookie) is None
    assert access.role_of_cookie("") is None
    assert access.role_of_cookie("operator.x.y") is None


def test_other_addresses_need_a_flag_and_tls(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="can be reached from elsewhere"):
        serve(None, host="0.0.0.0", port=0, home=tmp_path)
    with pytest.raises(QueryError, match="needs TLS"):
        serve(None, host="0.0.0.0", port=0, allow_remote=True, home=tmp_path)
    with pytest.raises(QueryError, match="there is no file"):
        serve(None, host="0.0.0.0", port=0, allow_remote=True, tls_cert="no.pem", tls_key="no.pem", home=tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "Select reflect('java.lang.System', 'exit', 0) From s",
        "Select a From s Where java_method('java.lang.System', 'getenv', 'HOME') = 'x'",
        "Create Query q As Select try_reflect('java.lang.System', 'nanoTime') From s",
        "Create Stream s (a Long, ts Timestamp) From 'kafka' With (subscribe = 't') Timestamp ts",
        "Create Stream s (a Long, ts Timestamp) From 'csv' With (path = '/etc') Timestamp ts",
        "Create Stream s (a Long, ts Timestamp) From 'csv' With (path = '../secret') Timestamp ts",
        "Create Relation r (a Long) From 'jdbc' With (url = 'jdbc:h2:mem:')",
        "Create Query q Into 'parquet' With (path = '/tmp/elsewhere') As Select a From s",
        "Create Query q Into 'console' As Select a From s",
        "Insert Into r Values ((Select first(value) From text.`/etc/passwd`))",
        "Insert Into r Values (reflect('java.lang.System', 'exit', 0))",
        "Delete From r Where a In (Select value From text.`/etc/passwd`)",
    ],
)
def test_statements_that_reach_too_far_are_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(AnabranchError):
        allowed_statements(text, [tmp_path])


def test_files_below_allowed_folders_are_allowed(tmp_path: Path) -> None:
    inside = tmp_path / "data"
    inside.mkdir()
    text = f"Create Stream s (a Long, ts Timestamp) From 'csv' With (path = '{inside}') Timestamp ts"
    assert allowed_statements(text, [tmp_path])
    (tmp_path / "way-out").symlink_to("/etc")
    for path in (
        f"{tmp_path}/way-out",
        f"{tmp_path}/../x",
        f"file://{tmp_path}/../x",
        "s3://bucket/x",
        f"{tmp_path}/*",
    ):
        with pytest.raises(QueryError):
            require_below(path, [tmp_path], "s")


@pytest.mark.spark
def test_tables_of_spark_cannot_be_read_by_queries(stage: Stage) -> None:
    found = stage.viewer.ask("POST", "/api/check", {"text": "Select value From text.`/etc/passwd`"}).json
    assert not found["ok"]


@pytest.mark.spark
def test_every_change_is_in_the_audit_log(stage: Stage) -> None:
    stage.operator.ask("PATCH", "/api/settings", {"state_bytes": 7})
    stage.operator.ask("POST", "/api/undo", {})
    lines = (stage.folder / "home" / "console-audit.jsonl").read_text().splitlines()
    done = [json.loads(line) for line in lines[-2:]]
    assert [each["action"] for each in done] == ["PATCH /api/settings", "POST /api/undo"]
    assert done[0]["what"] == {"state_bytes": 7}
    assert (done[0]["client"], done[0]["outcome"]) == ("127.0.0.1", "done")
