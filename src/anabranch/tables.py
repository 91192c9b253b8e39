"""Tables as aligned text, for reports, for benches and for what an engine holds."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def text_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, left: Collection[str]) -> str:
    """Titles, a ruler and rows; columns whose titles are in `left` hold words, the others numbers.

    >>> print(text_table(["query", "rows"], [["busy", "12"], ["q", "3,400"]], left=["query"]))
    query   rows
    -----  -----
    busy      12
    q      3,400
    """
    widths = [max(map(len, column)) for column in zip(titles, *rows, strict=True)]

    def line(cells: Sequence[str]) -> str:
        aligned = (
            cell.ljust(width) if title in left else cell.rjust(width)
            for title, cell, width in zip(titles, cells, widths, strict=True)
        )
        return "  ".join(aligned).rstrip()

    return "\n".join([line(titles), "  ".join("-" * width for width in widths), *map(line, rows)])
