"""Tables for terminals, with rich; `anabranch.tables` has those of plain text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from rich import box
from rich.table import Table


def rich_table(
    titles: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Collection[str],
    frame: box.Box = box.HEAVY_HEAD,
    widths: Mapping[str, int] | None = None,
) -> Table:
    """A table whose columns in `left` hold words, and the others numbers; `widths` are the least ones, by title."""
    table = Table(header_style="bold", border_style="bright_black", box=frame)
    for title in titles:
        least = (widths or {}).get(title)
        table.add_column(title, justify="left" if title in left else "right", overflow="fold", min_width=least)
    for row in rows:
        table.add_row(*row)
    return table
