"""Plans as text: an indented tree, and a Mermaid chart.

>>> print(render(Window(Scan("s1", "stream", (("k", "k_1"),)), rows=5)))
window rows 5
  stream s1 (k as k_1)
"""

from __future__ import annotations

from typing import assert_never

from anabranch.logical_plan import (
    Aggregate,
    Aggregation,
    Distinct,
    Filter,
    Join,
    Member,
    Plan,
    Project,
    Query,
    Scalar,
    Scan,
    SetOperation,
    ToStream,
    Window,
)


def render(plan: Plan) -> str:
    """A plan as an indented tree, the answer on top."""
    lines = [describe(plan)]
    for each in plan.inputs:
        lines += [f"  {line}" for line in render(each).split("\n")]
    return "\n".join(lines)


def mermaid(query: Query) -> str:
    """A query's plan as a Mermaid flow chart, sources on top."""
    lines = ["flowchart TD"]
    root = _boxes(query.plan, lines, [0])
    answer = f"{query.name}: {', '.join(query.output)}"
    lines += [f'    answer(["{_escaped(answer)}"])', f"    {root} --> answer"]
    return "\n".join(lines)


def describe(plan: Plan) -> str:
    """One node, in a line."""
    match plan:
        case Scan():
            columns = ", ".join(f"{name} as {unique}" for name, unique in plan.renamed)
            return f"{plan.kind} {plan.name} ({columns})"
        case Window():
            return f"window {plan.describe()}"
        case Filter():
            return "filter " + " and ".join(each.sql for each in plan.conditions)
        case Project():
            return "project " + ", ".join(_item(name, each) for name, each in plan.items)
        case Join():
            keys = "; ".join(" = ".join(name for _, name in key) for key in plan.keys)
            return f"join {keys}" if keys else "cross join"
        case Member():
            pairs = " and ".join(f"{one} = {other}" for one, other in plan.pairs)
            return f"{'not ' if plan.negated else ''}member" + (f" {pairs}" if pairs else "")
        case Aggregate():
            found = ", ".join(_aggregation(each) for each in plan.aggregations)
            return f"aggregate by ({', '.join(plan.keys)})" + (f": {found}" if found else "")
        case Distinct():
            return "distinct"
        case SetOperation():
            return f"{plan.kind} all" if plan.all else plan.kind
        case ToStream():
            return plan.kind
        case _:
            assert_never(plan)


def _boxes(plan: Plan, lines: list[str], counter: list[int]) -> str:
    """Add a node below its inputs; its own name is returned."""
    inputs = [_boxes(each, lines, counter) for each in plan.inputs]
    name = f"n{counter[0]}"
    counter[0] += 1
    text = _escaped(describe(plan))
    lines.append(f'    {name}[("{text}")]' if isinstance(plan, Scan) else f'    {name}["{text}"]')
    lines += [f"    {each} --> {name}" for each in inputs]
    return name


def _escaped(text: str) -> str:
    """Text for a quoted Mermaid label, in which markup must not be read as such."""
    text = text.replace("&", "&amp;").replace('"', "#quot;").replace("<", "&lt;").replace(">", "&gt;")
    return text.replace("`", "#96;")


def _item(name: str, expression: Scalar) -> str:
    return name if expression.column == name else f"{expression.sql} as {name}"


def _aggregation(each: Aggregation) -> str:
    argument = "*" if each.argument is None else f"{'distinct ' if each.distinct else ''}{each.argument}"
    parameter = "" if each.parameter is None else f", {each.parameter:g}"
    return f"{each.function}({argument}{parameter}) as {each.name}"
