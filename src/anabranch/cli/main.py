"""The entry of the command line: `anabranch ...`."""

from __future__ import annotations

import io
import sys

from anabranch.errors import AnabranchError

EXTRA = ("typer", "rich")
FAILED = 2


def run() -> int:
    """Run a command and return its exit code: 2 for a wrong call or a failure that has a hint."""
    try:
        from anabranch.cli.commands import app
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in EXTRA:
            raise
        print(f"{missing.name} is needed for the command line: pip install 'anabranch[cli]'", file=sys.stderr)
        return FAILED
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # as stderr: what a terminal cannot show is no failure
    try:
        app()
    except AnabranchError as error:
        _show(error)
        return FAILED
    return 0


def _show(error: AnabranchError) -> None:
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, highlight=False, soft_wrap=True)
    console.print(f"[bold red]error:[/] [red]{escape(error.what)}[/]")
    if error.hint is not None:
        console.print(f"[red]hint:[/] {escape(error.hint)}")


if __name__ == "__main__":
    sys.exit(run())
