"""Files and folders that commands are given; problems are found before the work begins."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryFile

from anabranch.errors import QueryError


def read(file: Path) -> str:
    """The text of a file."""
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise QueryError(f"{file} is not text in UTF-8: see byte {error.start + 1}", hint="save it as UTF-8") from None
    except (FileNotFoundError, NotADirectoryError):
        raise QueryError(f"there is no file {file}", hint="check its name and folder") from None
    except OSError as error:
        raise QueryError(f"{file} cannot be read: {error.strerror}", hint="choose another file") from None


def make_room(file: Path) -> None:
    """Make the folder of a file that is to be written, and see whether it can be; an earlier one stays as it is."""
    is_new = not os.path.lexists(file)
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.open("a").close()
        if is_new:
            file.unlink()
    except OSError as error:
        raise QueryError(f"{file} cannot be written: {_why(error, file.parent)}", hint="choose another file") from None


def make_folder(folder: Path) -> None:
    """Make a folder, and see whether files can be written into it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=folder).close()
    except OSError as error:
        raise QueryError(f"{folder} cannot be used: {_why(error, folder)}", hint="choose another folder") from None


def nearest(path: Path) -> Path:
    """The path itself, or the first one above it that is there."""
    return next(each for each in (path.absolute(), *path.absolute().parents) if os.path.lexists(each))


def _why(error: OSError, folder: Path) -> str:
    above = nearest(folder)
    return str(error.strerror) if above.is_dir() else f"{above} is not a folder"
