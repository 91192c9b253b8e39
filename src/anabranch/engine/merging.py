"""Which small files in the buffer become one: long windows with short ticks would otherwise fill the manifest.

>>> files = [StoredFile(f"f{n}", 100, n, n + 1, tick=n) for n in range(6)]
>>> [file.path for file in worth_merging(files, taken=4, most=3)]
['f0', 'f1', 'f2', 'f3', 'f4']
>>> worth_merging(files, taken=4, most=6)
[]
"""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.engine.manifest import StoredFile

MOST_FILES = 64
MERGED_ROWS = 262_144


def worth_merging(files: Sequence[StoredFile], taken: int, most: int = MOST_FILES) -> list[StoredFile]:
    """The oldest small files that all readers know, if there are too many files; a larger one holds all their rows.

    Parameters
    ----------
    files
        Of one stream.
    taken
        The tick up to which all queries have taken rows that take them as they come.
    most
        So many files are no trouble.
    """
    if len(files) <= most:
        return []
    chosen: list[StoredFile] = []
    rows = 0
    for file in sorted(files, key=lambda each: each.first):
        small = file.tick <= taken and file.rows < MERGED_ROWS // 2
        if chosen and (not small or rows + file.rows > MERGED_ROWS):
            break
        if small:
            chosen.append(file)
            rows += file.rows
    return chosen if len(chosen) > 1 else []
