"""Figures 10a and 10b: output rate and execution time per tuple, on skewed and on uniform data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from anabranch.measure import Bar, at_least, at_most, informed
from anabranch.reproduce.querymesh.names import BATCHED, EDDY, MESH, SINGLE, SKEWED, SMALL_MESH, UNIFORM
from anabranch.reproduce.querymesh.running import Ran
from anabranch.reproduce.querymesh.streams import JOINS, SAMPLE_TUPLES
from anabranch.reproduce.thesis.exhibit import Chart, Exhibit, Series

SYSTEMS = (MESH, SINGLE, BATCHED, EDDY)
PAPER = {
    SKEWED: {SINGLE: 1.44, BATCHED: 1.18, EDDY: 1.27},
    UNIFORM: {SINGLE: 0.978, BATCHED: 1.24, EDDY: 1.39},
}
BEHIND = 0.978
MICRO = 1e-6

Runs = Sequence[Mapping[str, Ran]]


def exhibits(found: Mapping[str, Runs], longer: Runs) -> list[Exhibit]:
    """Both figures."""
    return [_rates(found, longer), _times(found)]


def ahead(runs: Runs, other: str, name: str = MESH) -> float:
    """Output rate of one system / another's, in results per operator call, over all streams."""
    return _calls(runs, other) / _calls(runs, name)


def _rates(found: Mapping[str, Runs], longer: Runs) -> Exhibit:
    skew, flat = found[SKEWED], found[UNIFORM]
    columns = {f"{kind}|{name}": _per_call(runs, name) for kind, runs in found.items() for name in SYSTEMS}
    return Exhibit(
        "Figure 10a",
        f"Skewed: {ahead(skew, SINGLE) - 1:+.1%} against the single plan, {ahead(skew, EDDY) - 1:+.1%} and "
        f"{ahead(skew, BATCHED) - 1:+.1%} against the Eddy without and with batches. Uniform: "
        f"{ahead(flat, SINGLE) - 1:+.1%}, {ahead(flat, EDDY) - 1:+.1%}, {ahead(flat, BATCHED) - 1:+.1%}.",
        [
            *(_claim(kind, runs, other) for kind, runs in found.items() for other in (SINGLE, EDDY, BATCHED)),
            informed("10a skewed: mesh of Table 1 / single plan", ahead(skew, SINGLE, SMALL_MESH), "T = 10, ii"),
            informed("10a uniform: mesh of Table 1 / single plan", ahead(flat, SINGLE, SMALL_MESH), "T = 10, ii"),
            informed(
                "10a skewed: mesh / Eddy in batches, long streams",
                ahead(longer, BATCHED),
                f"{len(longer[0][MESH].calls):,} tuples each: time to learn",
            ),
            informed(
                "10a skewed: mesh / Eddy in batches, long streams, sample paid for",
                _paying(longer),
                "all joins tried on 1000 tuples",
            ),
        ],
        [
            Chart(
                "",
                "results per 1000 operator calls",
                list(columns),
                [Series("rate", list(columns.values()))],
                "columns",
            )
        ],
    )


def _claim(kind: str, runs: Runs, other: str) -> Bar:
    each = [run[other].total / run[MESH].total for run in runs]
    limit = BEHIND if (kind, other) == (UNIFORM, SINGLE) else 1.0
    said = f"paper {PAPER[kind][other]:.3g}; streams {min(each):.2f}-{max(each):.2f}"
    return at_least(f"10a {kind}: mesh / {other}, results per call", ahead(runs, other), limit, said)


def _paying(runs: Runs) -> float:
    """The same, if the mesh pays for trying every join on each tuple of its sample."""
    return _calls(runs, BATCHED) / (_calls(runs, MESH) + SAMPLE_TUPLES * JOINS * len(runs))


def _times(found: Mapping[str, Runs]) -> Exhibit:
    columns = {(kind, name): _per_tuple(runs, name) for kind, runs in found.items() for name in SYSTEMS}
    layers = zip(("operators", "overhead"), zip(*columns.values(), strict=True), strict=True)
    skew = {name: sum(columns[SKEWED, name]) for name in SYSTEMS}
    return Exhibit(
        "Figure 10b",
        "Microseconds per tuple, skewed: " + ", ".join(f"{name} {value:.1f}" for name, value in skew.items()) + ".",
        [
            *(
                at_most(f"10b skewed: mesh / {other}, time", skew[MESH] / skew[other], 1.0, _inverse(SKEWED, other))
                for other in (SINGLE, EDDY, BATCHED)
            ),
            at_most("10b skewed: Eddy in batches / Eddy, time", skew[BATCHED] / skew[EDDY], 1.0, "paper 0.93"),
            at_most(
                "10b uniform: mesh / single plan, time",
                sum(columns[UNIFORM, MESH]) / sum(columns[UNIFORM, SINGLE]),
                1 / BEHIND,
                _inverse(UNIFORM, SINGLE),
            ),
        ],
        [
            Chart(
                "",
                "us per tuple",
                [f"{kind}|{name}" for kind, name in columns],
                [Series(label, list(values)) for label, values in layers],
                "columns",
            )
        ],
    )


def _inverse(kind: str, other: str) -> str:
    return f"paper {1 / PAPER[kind][other]:.2f}, from the rates"


def _per_tuple(runs: Runs, name: str) -> tuple[float, float]:
    tuples = _sum(runs, name, lambda ran: len(ran.calls)) * MICRO
    overhead = _sum(runs, name, lambda ran: ran.overhead)
    return (_sum(runs, name, lambda ran: ran.seconds) - overhead) / tuples, overhead / tuples


def _per_call(runs: Runs, name: str) -> float:
    return 1000 * _sum(runs, name, lambda ran: float(ran.passed.sum())) / _calls(runs, name)


def _calls(runs: Runs, name: str) -> float:
    return _sum(runs, name, lambda ran: ran.total)


def _sum(runs: Runs, name: str, value: Callable[[Ran], float]) -> float:
    return sum(value(run[name]) for run in runs)
