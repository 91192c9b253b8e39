"""Tables and events as HTML, for notebooks and for the demo's report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from anabranch.errors import InternalError
from anabranch.events import (
    CacheAdded,
    CacheDropped,
    ConstraintAdopted,
    ConstraintViolated,
    EffortChanged,
    Event,
    MemoryExceeded,
    PilotDecided,
    ProbesReordered,
    QueryFailed,
    Reordered,
    RoutesChanged,
    Started,
    StreamFailed,
)


def table(titles: Sequence[str], rows: Iterable[Sequence[object]], *, words: int = 1) -> str:
    """An HTML table whose first `words` columns hold words, and the others numbers.

    >>> table(["name", "rows"], [["a<b", 1200]]).partition("</tr>")[2]
    '<tr><td>a&lt;b</td><td class="number">1,200</td></tr></table>'
    """

    def line(tag: str, cells: Sequence[object]) -> str:
        opened = (f"<{tag}>" if at < words else f'<{tag} class="number">' for at in range(len(cells)))
        return "".join(f"{start}{escape(_text(c))}</{tag}>" for start, c in zip(opened, cells, strict=True))

    lines = [line("th", titles), *(line("td", row) for row in rows)]
    return "<table>" + "".join(f"<tr>{cells}</tr>" for cells in lines) + "</table>"


def described(event: Event) -> tuple[str, str]:
    """What happened, and why, in words.

    >>> described(Reordered(64, "auto", ("a", "b"), ("b", "a"), "3 us per profiled row instead of 5"))
    ('b → a', '3 us per profiled row instead of 5')
    >>> described(Reordered(64, "auto", ("a", "b"), ("b", "a"), "3 us instead of 5", route="port in (80)"))
    ('port in (80): b → a', '3 us instead of 5')
    >>> described(RoutesChanged(500, "auto", ("port in (80): b -> a", "all other rows: a -> b"), "saves 20 %"))
    ('port in (80): b → a; all other rows: a → b', 'saves 20 %')
    >>> described(QueryFailed("busy", "the disk is full"))
    ('query busy failed', 'the disk is full')
    >>> described(ProbesReordered("busy", "a", ("b", "c"), ("c", "b"), "c drops more", cell=3))
    ('query busy, new rows of a, cell 3: c → b', 'c drops more')
    """
    match event:
        case Started(order=order, learned=learned):
            return f"starts with {' → '.join(order)}", "learned before" if learned else "as written"
        case Reordered(after=after, reason=reason, route=route):
            return _on(route, " → ".join(after)), reason
        case PilotDecided(after=after, reason=reason):
            return " → ".join(after), reason
        case EffortChanged(mode=mode, profile_probability=share, reason=reason, route=route):
            return _on(route, f"{mode}: tries {share:.1%} of the dropped rows further"), reason
        case RoutesChanged(routes=routes, reason=reason):
            return "; ".join(routes).replace("->", "→"), reason
        case StreamFailed(stream=stream, reason=reason):
            return f"stream {stream} failed", reason
        case QueryFailed(query=query, reason=reason):
            return f"query {query} failed", reason
        case ProbesReordered(query=query, input=name, after=after, reason=reason, cell=cell):
            return f"query {query}, new rows of {name}{_in(cell)}: {' → '.join(after)}", reason
        case CacheAdded(query=query, input=name, windows=windows, reason=reason, cell=cell):
            return f"query {query}, new rows of {name}{_in(cell)}: a cache of {', '.join(windows)}", reason
        case CacheDropped(query=query, input=name, windows=windows, reason=reason, cell=cell):
            return f"query {query}, new rows of {name}{_in(cell)}: no cache of {', '.join(windows)} any more", reason
        case ConstraintAdopted(query=query, constraint=constraint, cell=cell):
            return f"query {query}{_in(cell)}: {constraint} holds", "all rows so far keep it"
        case ConstraintViolated(query=query, constraint=constraint, cell=cell):
            return f"query {query}{_in(cell)}: {constraint} does not hold any more", "a row does not keep it"
        case MemoryExceeded(query=query, bytes=held, limit=limit, alone=alone):
            who = f"query {query} takes" if alone else f"query {query} and others take"
            what = f"{who} {held:,} bytes of memory, {held - limit:,} more than the limit"
            return what, "what is left cannot go to disk; most of it is of this query"
    raise InternalError(f"no words for a {type(event).__name__}")


def _in(cell: int | None) -> str:
    return "" if cell is None else f", cell {cell}"


def _on(route: str, what: str) -> str:
    return f"{route}: {what}" if route else what


def _text(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:,}" if isinstance(value, int) else str(value)
