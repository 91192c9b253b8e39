"""What the bench of the console computes: the network it shows, the bars of a soak, and its clients."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from anabranch.benches.console import soaked
from anabranch.benches.console_clients import PATHS, main
from anabranch.benches.console_pages import Memory, network
from anabranch.console.answer_cache import AnswerCache
from anabranch.console.service import serve
from console.stage import FAST, client_of


def test_the_network_of_the_bench_is_one() -> None:
    found = network(200)
    ids = [each["id"] for each in found["nodes"]]
    assert len(set(ids)) == 200
    assert {end for edge in found["edges"] for end in edge} <= set(ids)


def test_memory_that_grows_falls_short() -> None:
    def bars(growth: float) -> dict[str, bool]:
        samples = [(Memory(n, 1e7 * (1 + growth * n), 500, 10, 30), 200.0) for n in range(60)]
        return {each.bar.partition(",")[0]: each.holds for each in soaked(samples, 30, 100)}

    assert all(bars(0.0).values())
    assert not bars(0.01)["memory of open pages"]


def test_clients_of_the_bench_count_what_they_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(None, port=0, home=tmp_path, limits=FAST) as service:
        monkeypatch.setenv("ANABRANCH_TOKEN", service._access.viewer)
        asyncio.run(main(service.address, 5, 1.5))
        found = json.loads(capsys.readouterr().out)
        assert found["open"] == 5
        assert found["answers"] >= 5
        assert 0 <= found["failed"] <= found["answers"]  # there is no engine: some paths answer 404
        monkeypatch.setenv("ANABRANCH_TOKEN", "guess")
        asyncio.run(main(service.address, 2, 1.0))
        refused = json.loads(capsys.readouterr().out)
        assert refused["failed"] == refused["answers"]
        assert refused["open"] == 0
    assert "/api/overview" in PATHS


def test_answers_are_made_once_for_all_clients_until_there_is_something_new(tmp_path: Path) -> None:
    with serve(None, port=0, home=tmp_path, limits=FAST) as service:
        made = []
        (route,) = [each for each in service._console.routes if each.path == "/api/events"]
        handler = route.handler

        def counted(**given: object) -> object:
            made.append(given)
            return handler(**given)

        object.__setattr__(route, "handler", counted)
        clock = [0.0]
        service._console._shared = AnswerCache(lambda: service._hub.seen.version, clock=lambda: clock[0])
        client = client_of(service, service._access.viewer)
        answers = [client.get("/api/events?limit=5") for _ in range(4)]
        assert answers == [{"total": 0, "events": []}] * 4
        assert len(made) == 1
        client.get("/api/events?limit=6")
        clock[0] = 10.0
        client.get("/api/events?limit=5")
        assert len(made) == 3
