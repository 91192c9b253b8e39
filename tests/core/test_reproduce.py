"""Small versions of the reproduced experiments: what the thesis claims holds in direction, run after run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from anabranch.measure import at_most, informed
from anabranch.reproduce import filters
from anabranch.reproduce.thesis import adaptivity, breakdown, convergence, examples, overhead, rates
from anabranch.reproduce.thesis.claims import CLAIMS
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series
from anabranch.reproduce.thesis.page import introduction, write_page
from anabranch.reproduce.thesis.running import Setting, means
from anabranch.reproduce.thesis.workload import Workload


@pytest.mark.parametrize("selectivity", [0.15, 0.3, 0.5, 0.7, 0.85])
def test_filters_of_a_group_agree_on_80_percent_at_every_selectivity(selectivity: float) -> None:
    passes = Workload(6, group_filters=3, selectivities=(selectivity,)).draw(60_000, np.random.default_rng(1))
    assert passes.mean(axis=0) == pytest.approx(selectivity, abs=0.01)
    for a, b in [(0, 1), (1, 2), (3, 5)]:
        assert (passes[:, a] == passes[:, b]).mean() == pytest.approx(0.8, abs=0.01)
    by_chance = selectivity**2 + (1 - selectivity) ** 2
    assert (passes[:, 2] == passes[:, 3]).mean() == pytest.approx(by_chance, abs=0.01)


def test_groups_have_their_own_selectivities_and_the_last_may_be_smaller() -> None:
    passes = Workload(5, selectivities=(0.2, 0.5, 0.8)).draw(40_000, np.random.default_rng(2))
    assert passes.mean(axis=0) == pytest.approx([0.2, 0.2, 0.5, 0.5, 0.8], abs=0.01)


def test_the_best_order_costs_in_the_pipeline_what_the_search_says() -> None:
    passes = Workload(5).draw(4_000, np.random.default_rng(3))
    costs = np.array([1.0, 4.0, 2.0, 1.0, 3.0])
    best = Setting(costs).best_order(passes)
    spent = Setting(costs, start=best).run("fixed", passes).between(0, 4_000)
    assert spent.total == pytest.approx(Setting(costs).optimum(passes).total)
    assert spent.overhead == 0.0


def test_a_run_refuses_to_average_over_parts_of_a_chunk() -> None:
    run = Setting(np.ones(2)).run("fixed", np.ones((1_000, 2), dtype=np.bool_))
    with pytest.raises(ValueError, match="multiples"):
        run.between(0, 750)


@pytest.mark.parametrize("filters_", [4, 10, 20])
def test_counter_examples_cost_exactly_what_they_should(filters_: int) -> None:
    assert examples.missed_correlation(filters_) == pytest.approx((0.49 * filters_ + 0.51, 1.49))
    assert examples.local_optimum(filters_) == pytest.approx(((filters_ + 1) / 2, 1 + 1 / filters_))


def test_sampling_leads_localswaps_out_of_the_exact_tie() -> None:
    assert examples.escape(10) == pytest.approx(1.1, abs=0.1)


def test_converged_agreedy_is_near_the_optimum_and_ahead_of_independent() -> None:
    plan = convergence.Plan(before=20_000, measured=40_000, repetitions=2)
    work = Workload(8, selectivities=(0.4, 0.47, 0.53, 0.6))
    found = convergence.converged(work, plan)
    cost = {name: spent.processing for name, spent in means(found).items()}
    assert cost["optimal"] <= cost["agreedy"] <= 1.03 * cost["optimal"]
    assert cost["independent"] >= 1.05 * cost["agreedy"]
    assert convergence.converged(work, plan) == found


def test_sweep_and_localswaps_find_the_order_of_agreedy_with_less_profiling() -> None:
    plan = overhead.Plan(before_busy=160_000, measured=80_000, repetitions=1, chunk=2000)
    found = means(overhead.settled(6, 1, 0.05, plan))
    for name in ("sweep", "localswaps"):
        assert found[name].processing == pytest.approx(found["agreedy"].processing, rel=0.03)
        assert found[name].profiling < found["agreedy"].profiling / 2
    assert found["independent"].processing > found["agreedy"].processing


def test_expensive_filters_raise_the_overhead_of_agreedy() -> None:
    plan = overhead.Plan(before_busy=40_000, measured=40_000, repetitions=1, chunk=2000)
    equal, dear = (means(overhead.settled(8, cost, 0.05, plan))["agreedy"].overhead for cost in (1, 100))
    assert dear > 2 * equal


def test_hash_probes_answer_like_the_matrix() -> None:
    passes = Workload(2).draw(500, np.random.default_rng(4))
    stream = np.random.default_rng(5).integers(0, 500, 300)
    probes = breakdown.Probes(passes, np.array([1, 3]), stream)
    for f in (0, 1):
        assert (probes(f, np.arange(300)).passed == passes[stream, f]).all()


def test_profiling_more_takes_a_larger_share_of_the_measured_time() -> None:
    rarely, often = (breakdown.timed_run("agreedy", 8, 30_000, probability=p) for p in (0.01, 0.2))
    assert (rarely > 0).all()
    assert often[1] / often.sum() > 2 * rarely[1] / rarely.sum()


def test_agreedy_follows_a_change_before_sweep_does() -> None:
    plan = adaptivity.Plan(change_at=160_000, after=400_000, chunk=2000)
    found = adaptivity.repetition(plan, 0, ("agreedy", "sweep"))
    assert 0 < found["agreedy"].settling_tuples < found["sweep"].settling_tuples
    assert found["agreedy"].cost_settled < 0.95 * found["agreedy"].cost_before


def test_agreedy_pays_at_a_high_rate_of_change() -> None:
    plan = rates.Plan(tuples=600_000, chunk=2500)
    cost = rates.changing(rates.WORK, rates.OFTEN, 10, plan, ("agreedy", "sweep"))
    assert 1.0 < cost["agreedy"].total < cost["sweep"].total


def test_the_page_shows_paper_ours_and_reason_and_draws_the_charts(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    lines = Chart("n", "cost", [1, 10], [Series("Sweep", [1.0, 2.0], [0.1, 0.1])], log_x=True)
    columns = Chart("", "share", ["n = 3|Sweep", "n = 8|Sweep"], [Series("processing", [0.9, 0.8])], kind="columns")
    figure = Exhibit("Figure 4.16, timed", "we found", [at_most("a claim", 2.0, 1.0)], [lines, columns])
    table = Exhibit("Table 4.2", "", table=[["head"], ["cell"]])
    text = write_page([figure, table], CLAIMS, tmp_path, introduction(quick=True)).read_text()
    paper = CLAIMS[figure.name]
    assert f"| [Figure 4.16, timed](#figure-416-timed) | {paper.paper} | we found | {paper.why} |" in text
    assert "0 of 1 claims hold" in text
    assert "- a claim: 2.00, wanted <= 1.00" in text
    assert "| cell |" in text
    assert (tmp_path / "figure-4.16-timed.png").stat().st_size > 5_000


def test_the_command_writes_claims_and_page_and_reports_the_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(filters, "GROUPS", (examples,))
    monkeypatch.setattr(filters, "summary", lambda _: Exhibit("Table 4.3", "", [informed("last", 1.0)]))
    code = filters.main(quick=True, json_path=tmp_path / "claims.json", out=tmp_path / "page")
    claims = json.loads((tmp_path / "claims.json").read_text())
    assert code == 0
    assert [claim["bar"] for claim in claims][-1] == "last"
    assert all(claim["holds"] for claim in claims)
    assert (tmp_path / "page" / "example-4.6.1.png").exists()
    assert "4.5.1 largest distance to the formulas" in capsys.readouterr().out
