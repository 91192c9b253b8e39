"""The service over real HTTP, against a real engine: what it shows, and what it changes."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

import pytest

from console.stage import Stage, await_true

pytestmark = pytest.mark.spark


def test_streams_queries_and_rows_are_those_of_the_engine(stage: Stage) -> None:
    stage.service._hub.look()
    streams = {each["name"]: each for each in stage.viewer.get("/api/streams")}
    assert streams["calls"]["rows"] == stage.engine.rows_taken("calls")
    assert [name for name, _ in streams["calls"]["columns"]] == ["ts", "host", "size"]
    busy = stage.viewer.get("/api/queries/busy")
    assert (busy["status"], busy["columns"], busy["streams"]) == ("running", ["host", "n"], ["calls"])
    rows = stage.viewer.get("/api/queries/busy/rows")
    expected = sorted(tuple(row) for row in stage.engine.queries["busy"].current().collect())
    assert sorted(tuple(row) for row in rows["rows"]) == expected
    picked = stage.viewer.get("/api/queries/picked/rows?limit=1000")
    assert len(picked["rows"]) == stage.engine.queries["picked"].to_dataframe().count()


def test_a_search_finds_queries_by_name_and_text(stage: Stage) -> None:
    found = stage.viewer.get("/api/queries?search=large%20odd")
    assert [each["name"] for each in found["queries"]] == ["picked"]
    assert stage.viewer.get("/api/queries?limit=1&offset=1")["total"] == 3


def test_the_network_shows_what_is_shared(stage: Stage) -> None:
    plan = stage.viewer.get("/api/plans")
    shared = [each for each in plan["nodes"] if len(each.get("queries", ())) > 1 and each["kind"] == "operator"]
    assert [sorted(each["queries"]) for each in shared] == [["busy", "twin"]]
    assert ["stream:calls", shared[0]["id"]] in plan["edges"]
    assert [shared[0]["id"], "query:busy"] in plan["edges"]
    assert shared[0]["rows_in"] > 0
    own = stage.viewer.get("/api/plans?query=picked")
    assert {each["kind"] for each in own["nodes"]} == {"stream", "filter", "query"}


def test_filters_and_their_decisions(stage: Stage) -> None:
    (found,) = stage.viewer.get("/api/filters")
    assert found["id"] == "picked/1"
    assert found["written"] == ["large(size)", "odd(size)"]
    one = stage.viewer.get("/api/filters/picked%2F1")
    assert one["frames"][0]["kind"] == "Started"
    assert one["frames"][0]["order"] == ["large(size)", "odd(size)"]
    cards = stage.viewer.get("/api/events?filter=picked/1")["events"]
    assert [card["kind"] for card in cards].count("Started") >= 1


def test_a_query_is_registered_paused_resumed_and_dropped(stage: Stage) -> None:
    wanted = {"name": "sizes", "text": "Select Istream(host, size) From calls [Now] Where size > 50"}
    made = stage.operator.ask("POST", "/api/queries", wanted)
    assert made.status == 200, made.body
    assert made.json["status"] == "running"
    stage.bring(50)
    await_true(lambda: stage.viewer.get("/api/queries/sizes/rows")["rows"])
    for action, status in (("pause", "paused"), ("resume", "running"), ("stop", "stopped"), ("start", "running")):
        reply = stage.operator.ask("POST", f"/api/queries/sizes/{action}")
        assert (reply.status, reply.json["status"]) == (200, status)
    assert stage.operator.ask("POST", "/api/queries/sizes/explode").status == 422
    assert stage.operator.ask("DELETE", "/api/queries/sizes").status == 200
    assert stage.viewer.ask("GET", "/api/queries/sizes").status == 404
    entries = stage.viewer.get("/api/audit")
    assert entries[0]["action"] == "DELETE /api/queries/sizes"
    assert {each["role"] for each in entries} == {"operator"}


def test_errors_are_reported_with_their_place(stage: Stage) -> None:
    found = stage.viewer.ask("POST", "/api/check", {"text": "Select hots From calls [Now]"}).json
    assert not found["ok"]
    (error,) = found["errors"]
    assert (error["line"], error["column"]) == (1, 8)
    assert "host" in error["hint"]
    fine = stage.viewer.ask("POST", "/api/check", {"text": "Select host From calls [Now]"}).json
    assert fine["ok"]
    assert "window now" in fine["plans"][0]
    reply = stage.operator.ask("POST", "/api/queries", {"name": "bad", "text": "Select hots From calls"})
    assert (reply.status, reply.json["line"]) == (400, 1)


def test_statements_are_carried_out(stage: Stage) -> None:
    text = "Create View few As Select host From calls [Rows 5]; Create Query last As Select * From few; Show Views"
    reply = stage.operator.ask("POST", "/api/statements", {"text": text})
    assert reply.status == 200, reply.body
    assert reply.json["queries"] == ["last"]
    assert "few" in reply.json["said"][0]
    stage.operator.ask("POST", "/api/statements", {"text": "Drop Query last; Drop View few"})


def test_rules_come_and_go(stage: Stage) -> None:
    text = "Select Istream(host, size) From calls [Now] Where size > :limit"
    made = stage.operator.ask("POST", "/api/rules", {"name": "alerts", "text": text})
    assert made.status == 200, made.body
    rules = {"rules": [{"rule": "a", "limit": 90}, {"rule": "b", "limit": 95}]}
    assert stage.operator.ask("POST", "/api/rules/alerts", rules).json == {"added": 2}
    assert stage.viewer.get("/api/rules")[0]["relation"] == "alerts_rules"
    assert stage.viewer.get("/api/rules/alerts/rows")["total"] == 2
    assert stage.operator.ask("DELETE", "/api/rules/alerts/a").json == {"removed": 1}
    assert stage.operator.ask("DELETE", "/api/rules/alerts/zz").status == 404
    stage.operator.ask("DELETE", "/api/queries/alerts")
    assert stage.viewer.get("/api/rules") == []


def test_settings_change_and_are_taken_back(stage: Stage) -> None:
    settings = partial(stage.viewer.get, "/api/settings")
    wanted = {"filter": "picked/1", "policy": "agreedy", "config": {"profile_probability": 0.5}}
    assert stage.operator.ask("PATCH", "/api/settings", wanted).status == 200
    (of,) = stage.engine.queries["picked"].filters()
    assert (of.policy, of.config.profile_probability) == ("agreedy", 0.5)
    before = of.report().rows
    stage.bring(60)
    await_true(lambda: of.report().rows > before)
    assert stage.operator.ask("PATCH", "/api/settings", {"state_bytes": 1_000_000}).status == 200
    assert settings()["state_bytes"] == 1_000_000
    steps = settings()["steps"]
    assert [step["what"] for step in steps[:2]] == ["state_bytes", "filter picked/1"]
    assert stage.operator.ask("POST", "/api/undo", {}).status == 200
    assert settings()["state_bytes"] is None
    assert stage.operator.ask("POST", "/api/undo", {}).status == 200
    assert of.policy == "auto"
    refused = stage.operator.ask("PATCH", "/api/settings", {"filter": "picked/1", "policy": "gready"})
    assert refused.status == 400


def test_rows_are_traced_if_that_is_wanted(stage: Stage) -> None:
    assert stage.viewer.get("/api/traces/picked%2F1") == {
        "id": "picked/1",
        "share": 0.0,
        "written": ["large(size)", "odd(size)"],
        "traces": [],
    }
    assert stage.viewer.ask("GET", "/api/traces/nothing").status == 404
    assert stage.viewer.ask("PATCH", "/api/settings", {"filter": "picked/1", "trace": 1}).status == 403
    assert stage.operator.ask("PATCH", "/api/settings", {"filter": "picked/1", "trace": 2}).status == 422
    assert stage.operator.ask("PATCH", "/api/settings", {"filter": "picked/1", "trace": 1}).status == 200
    stage.bring(60)
    await_true(lambda: stage.viewer.get("/api/traces/picked%2F1")["traces"])
    for trace in stage.viewer.get("/api/traces/picked%2F1")["traces"]:
        size = int(dict(trace["values"])["size"])
        for call in trace["calls"]:
            passes = size > 20 if call["predicate"] == "large(size)" else size % 2 == 1
            assert call["verdict"] == ("passed" if passes else "dropped")
            assert call["seconds"] > 0
        assert trace["passed"] == (size > 20 and size % 2 == 1)
    assert stage.operator.ask("POST", "/api/undo", {}).status == 200
    assert stage.viewer.get("/api/traces/picked%2F1")["share"] == 0


def test_two_plans_are_compared(stage: Stage) -> None:
    def settings() -> Any:
        (found,) = stage.viewer.get("/api/settings")["filters"]
        return found

    wanted = {"filter": "picked/1", "rival": {"policy": "fixed", "order": ["odd(size)", "large(size)"]}}
    assert settings()["comparison"] is None
    assert stage.operator.ask("PATCH", "/api/settings", wanted).status == 200
    (of,) = stage.engine.queries["picked"].filters()
    before = of.report().rows
    for _ in range(30):
        stage.bring(50)
        stage.engine.queries["picked"].await_idle(600)
        if settings()["comparison"]["rows"]:
            break
    assert settings()["rival"] == "fixed, odd(size) -> large(size)"
    assert settings()["comparison"]["rows"] > 0
    assert of.report().rows > before
    assert len(stage.engine.queries["picked"].to_dataframe().collect()) == sum(
        n * 7 % 100 > 20 and n * 7 % 2 == 1 for n in range(stage.written)
    )
    wrong = {"filter": "picked/1", "rival": {"policy": "fixed", "order": ["nothing"]}}
    assert stage.operator.ask("PATCH", "/api/settings", wrong).status == 400
    assert stage.operator.ask("POST", "/api/undo", {}).status == 200
    assert settings()["comparison"] is None


def test_an_order_is_pinned_and_taken_back(stage: Stage) -> None:
    (of,) = stage.engine.queries["picked"].filters()
    wanted = {"filter": "picked/1", "policy": "fixed", "order": ["odd(size)", "large(size)"]}
    assert stage.operator.ask("PATCH", "/api/settings", wanted).status == 200
    before = of.report().rows
    stage.bring(60)
    await_true(lambda: of.report().rows > before)
    assert of.report().order == ("odd(size)", "large(size)")
    assert stage.operator.ask("PATCH", "/api/settings", {"cache_bytes": 1_000_000}).status == 200
    assert stage.engine.cache_bytes == 1_000_000
    for _ in range(2):
        assert stage.operator.ask("POST", "/api/undo", {}).status == 200
    assert (of.policy, of.order) == ("auto", None)
    assert stage.engine.cache_bytes != 1_000_000


def test_figures_for_prometheus_are_those_of_the_engine(stage: Stage) -> None:
    stage.service._hub.look()
    text = stage.viewer.ask("GET", "/metrics").body.decode()
    assert f'anabranch_stream_rows_total{{stream="calls"}} {stage.engine.rows_taken("calls")}' in text.splitlines()
    assert 'anabranch_query_up{query="busy"} 1' in text.splitlines()


def test_history_has_a_point_for_every_tick(stage: Stage) -> None:
    found = stage.viewer.get("/api/history?entity=stream%20calls&property=rate")
    assert [each["entity"] for each in found["series"]] == ["stream calls"]
    assert len(found["series"][0]["points"]) == found["ticks"]


def test_the_live_stream_tells_of_ticks(stage: Stage) -> None:
    import http.client

    client = stage.viewer
    connection = http.client.HTTPConnection(client.host, client.port, timeout=600)
    connection.request("GET", "/api/live", headers={"Authorization": f"Bearer {client.token}"})
    reply = connection.getresponse()
    assert reply.headers["content-type"].startswith("text/event-stream")

    def message() -> dict[str, int]:
        while not (line := reply.readline()).startswith(b"data: "):
            assert line, "the stream has ended"
        found: dict[str, int] = json.loads(line[6:])
        return found

    first = message()
    stage.bring(10)
    while message()["tick"] == first["tick"]:
        pass
    connection.close()


def test_late_rows_are_shown(stage: Stage) -> None:
    late = stage.viewer.get("/api/streams/calls/late?limit=5")
    assert stage.viewer.get("/api/streams/calls/late") == late
    assert [each["name"] for each in late["columns"]][:3] == ["ts", "host", "size"]


def test_the_description_names_every_address(stage: Stage) -> None:
    described = stage.viewer.get("/api/openapi.json")
    assert described["openapi"].startswith("3.1")
    for path in ("/api/streams", "/api/queries/{name}", "/api/filters/{id}", "/api/settings", "/api/metrics"):
        assert path in described["paths"]


def test_a_snapshot_is_one_file_with_everything_in_it(stage: Stage) -> None:
    page = stage.viewer.ask("GET", "/api/snapshot")
    assert "attachment" in page.headers["content-disposition"]
    text = page.body.decode()
    assert "src=" not in text.replace("data-src=", "")
    recorded = text.split('id="snapshot">')[1].split("</script>")[0]
    assert "/api/queries/busy/rows" in json.loads(recorded)


def test_parameters_of_the_description_have_defaults(stage: Stage) -> None:
    """None of them is required, so each handler has to do without."""
    import inspect

    for route in stage.service._console.routes:
        taken = inspect.signature(route.handler).parameters
        for name in route.params:
            assert taken[name].default is not inspect.Parameter.empty, f"{route.path}: {name}"


def test_the_skew_of_a_stream_is_set_and_taken_back(stage: Stage) -> None:
    def of_calls() -> dict[str, Any]:
        found: list[dict[str, Any]] = stage.viewer.get("/api/streams")
        return next(each for each in found if each["name"] == "calls")

    query = stage.engine.queries["picked"]
    query.await_idle(600)
    before = of_calls()
    assert before["skew"] == 0
    assert stage.operator.ask("PATCH", "/api/settings", {"stream": "calls", "skew": "30 seconds"}).status == 200
    assert of_calls()["skew"] == 30_000_000
    stage.bring(20)
    stage.engine.queries["busy"].await_idle(600)
    position = stage.viewer.get("/api/queries/busy")["position"]
    assert of_calls()["newest"] - position < 30_000_000 + 21_000_000
    assert position <= before["newest"] + 1, "twenty seconds of rows are not complete with thirty seconds of skew"
    late = of_calls()["late"]
    (set_,) = [each for each in stage.viewer.get("/api/settings")["streams"] if each["name"] == "calls"]
    assert (set_["skew"], set_["late"]) == (30_000_000, late)
    for wrong in ("soon", "-1 seconds", ""):
        assert stage.operator.ask("PATCH", "/api/settings", {"stream": "calls", "skew": wrong}).status == 400
    assert stage.operator.ask("PATCH", "/api/settings", {"stream": "nothing", "skew": "1 second"}).status == 400
    assert stage.operator.ask("POST", "/api/undo", {}).json["done"] == "skew of calls: 0 seconds again"
    assert of_calls()["skew"] == 0
    await_true(lambda: stage.viewer.get("/api/queries/busy")["position"] == of_calls()["newest"])


def test_a_query_gets_operators_of_its_own_and_shares_again(stage: Stage) -> None:
    def nodes(name: str) -> set[str]:
        return set(stage.viewer.get(f"/api/queries/{name}")["nodes"])

    def answer(name: str) -> list[Any]:
        return sorted(stage.viewer.get(f"/api/queries/{name}/rows")["rows"])

    def bring() -> None:
        stage.bring(30)
        for name in ("busy", "twin"):
            stage.engine.queries[name].await_idle(600)
        stage.service._hub.look()

    bring()
    assert nodes("busy") == nodes("twin")
    assert stage.operator.ask("PATCH", "/api/settings", {"query": "twin", "share": False}).status == 200
    assert not nodes("busy") & nodes("twin")
    assert not stage.viewer.get("/api/queries/twin")["share"]
    bring()
    assert not nodes("busy") & nodes("twin")
    assert answer("busy") == answer("twin")
    assert sum(row[1] for row in answer("twin")) == 60, "of the last minute, so the state went with it"
    assert stage.operator.ask("POST", "/api/undo", {}).status == 200
    bring()
    assert nodes("busy") == nodes("twin")
    assert answer("busy") == answer("twin")
    assert stage.operator.ask("PATCH", "/api/settings", {"query": "nothing", "share": True}).status == 400


def test_rows_of_joins_are_traced_with_their_partners(stage: Stage) -> None:
    text = "Select Istream(a.host, b.size) From calls [Now] a, calls [Range 1 Minute] b Where a.size = b.size"
    made = stage.operator.ask("POST", "/api/queries", {"name": "pairs", "text": text})
    assert made.status == 200, made.body
    (found,) = [each for each in stage.viewer.get("/api/joins") if each["query"] == "pairs"]
    assert (found["joins"], found["share"]) == ([["calls", "calls 2"]], 0)
    assert stage.viewer.get("/api/joins/pairs") == {"query": "pairs", "share": 0, "rows": []}
    assert stage.viewer.ask("GET", "/api/joins/nothing").status == 404
    assert stage.viewer.ask("PATCH", "/api/settings", {"query": "pairs", "trace": 1}).status == 403
    assert stage.operator.ask("PATCH", "/api/settings", {"query": "pairs", "trace": 2}).status == 422
    stage.bring(30)
    stage.engine.queries["pairs"].await_idle(600)
    assert stage.viewer.get("/api/joins/pairs")["rows"] == []
    assert stage.operator.ask("PATCH", "/api/settings", {"query": "pairs", "trace": 1}).status == 200
    stage.bring(30)
    stage.engine.queries["pairs"].await_idle(600)
    rows = stage.viewer.get("/api/joins/pairs")["rows"]
    assert rows
    for row in rows:
        (met,) = row["met"]
        assert {row["input"], met["window"]} == {"calls", "calls 2"}
        assert (row["missed"] is None) == (met["partners"] > 0)
        assert row["results"] <= met["partners"]
        assert all(dict(each)["size"] == dict(row["values"])["size"] for each in met["shown"])
    assert stage.operator.ask("POST", "/api/undo", {}).status == 200
    assert stage.viewer.get("/api/joins/pairs")["share"] == 0
    assert stage.operator.ask("PATCH", "/api/settings", {"query": "nothing", "trace": 1}).status == 400
    stage.operator.ask("DELETE", "/api/queries/pairs")


def test_state_has_the_caches_and_constraints_of_joins(stage: Stage) -> None:
    text = "Select Istream(a.host) From calls [Range 9 Seconds] a, calls [Range 9 Seconds] b Where a.size = b.size"
    query = stage.engine.query(text, name="kept", constraints="exact").start()
    stage.bring(40)
    query.await_idle(600)
    stage.service._hub.look()
    (found,) = [each for each in stage.viewer.get("/api/state")["joins"] if each["query"] == "kept"]
    assert "\n".join(found["constraints"]) == "\n".join(map(str, query.report().constraints))
    assert found["caches"] == []
    stage.operator.ask("DELETE", "/api/queries/kept")
