"""The commands: a demo, and the benches and reproductions, which are found and loaded by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Annotated, Any

import typer

import anabranch
from anabranch.cli.files import make_folder, make_room
from anabranch.errors import MissingExtra, QueryError, suggest

NOUNS = {"benches": "benches", "reproduce": "reproductions"}

app = typer.Typer(
    help="Adaptive, multi-route query processing for Spark.",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Quick = Annotated[bool, typer.Option("--quick", help="Less data: minutes become seconds, figures become rougher.")]
Json = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the figures here, too.")]


def _tell_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"anabranch {anabranch.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_tell_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Adaptive, multi-route query processing for Spark."""


@app.command()
def demo(
    rows: Annotated[int, typer.Option(min=1_000, help="Packets to generate.")] = 400_000,
    report: Annotated[Path, typer.Option(metavar="FILE", help="Where the HTML report goes.")] = Path(
        "anabranch-demo.html"
    ),
) -> None:
    """Watch filters being reordered on generated packets, and compare with plain Spark."""
    from anabranch.cli.demo import run

    run(rows, report)


@app.command()
def run(
    file: Annotated[Path, typer.Argument(help="Streams, relations and queries in CQL.")],
    checkpoint: Annotated[
        Path, typer.Option(metavar="DIR", help="State and answers; the same folder goes on where it stood.")
    ] = Path("anabranch-state"),
    batch: Annotated[bool, typer.Option("--batch", help="Read the inputs as they are, to their end.")] = False,
    until_idle: Annotated[
        bool, typer.Option("--until-idle", help="Stop once all rows that are there by now have been answered.")
    ] = False,
    seconds: Annotated[float | None, typer.Option(min=0, help="Stop after so long; on Ctrl-C if not given.")] = None,
) -> None:
    """Run continuous queries; a live table shows how far they are."""
    from rich.console import Console

    from anabranch.cli.run import run as run_script

    raise typer.Exit(run_script(file, checkpoint, Console(), batch=batch, until_idle=until_idle, seconds=seconds))


@app.command()
def explain(file: Annotated[Path, typer.Argument(help="Streams, relations and queries in CQL.")]) -> None:
    """Print the plans of queries, as text and as Mermaid."""
    from anabranch.cli.explain import explain as explain_script

    explain_script(file, typer.echo)


@app.command()
def advise(
    file: Annotated[Path, typer.Argument(help="Streams, relations and queries in CQL.")],
    json: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the findings and features here, too.")
    ] = None,
) -> None:
    """Say what a change of queries or streams would save: what could be shared, summed up or left out."""
    from rich.console import Console

    from anabranch.cli.advise import advise as advise_script

    raise typer.Exit(advise_script(file, Console(), json_path=json))


@app.command()
def doctor(
    checkpoint: Annotated[Path, typer.Option(metavar="DIR", help="Where state would be kept.")] = Path(),
) -> None:
    """Say what is wrong with Java, Python, Spark, memory or disk, and how to fix it; exit code 3 if something is."""
    from anabranch.cli.doctor import run as examine

    raise typer.Exit(examine(checkpoint, typer.echo))


@app.command()
def bench(
    name: Annotated[str | None, typer.Argument(help="Which one; all of them if not given.")] = None,
    quick: Quick = False,
    json: Json = None,
) -> None:
    """Measure against plain Spark and other engines; exit code 3 if a target is missed."""
    _run_all("benches", name, lambda each, run: run(quick=quick, json_path=json), json)


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(help="Which one; all of them if not given.")] = None,
    quick: Quick = False,
    json: Json = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the figures.")] = Path("reproduction"),
) -> None:
    """Re-create published figures; exit code 3 if a claim does not hold."""
    _run_all("reproduce", name, lambda each, run: run(quick=quick, json_path=json, out=out / each), json, out)


def _run_all(
    package: str,
    name: str | None,
    call: Callable[[str, Callable[..., int]], int],
    json: Path | None,
    out: Path | None = None,
) -> None:
    names = _names(package)
    if name is not None and name not in names:
        raise QueryError(f"there is no {name!r} among the {NOUNS[package]}", hint=suggest(name, names, NOUNS[package]))
    chosen = names if name is None else [name]
    if json is not None and len(chosen) > 1:
        raise QueryError(f"one file cannot hold the figures of {len(chosen)} {NOUNS[package]}", hint="name one of them")
    if json is not None:
        make_room(json)
    if out is not None:
        for each in chosen:
            make_folder(out / each)
    codes = [call(each, _loaded(f"anabranch.{package}.{each}").main) for each in chosen]
    raise typer.Exit(max(codes, default=0))


def _loaded(module: str) -> Any:
    try:
        return import_module(module)
    except ModuleNotFoundError as missing:
        if (missing.name or "anabranch").startswith("anabranch"):
            raise
        raise MissingExtra(missing.name or "", "bench", needed_for="benches and reproductions") from missing


def _names(package: str) -> list[str]:
    """The modules of a package that have a `main`, found by their source: importing one may need extras."""
    found = iter_modules(import_module(f"anabranch.{package}").__path__)
    return sorted(module.name for module in found if _has_main(f"anabranch.{package}.{module.name}"))


def _has_main(module: str) -> bool:
    spec = find_spec(module)
    source = Path(spec.origin).read_text(encoding="utf-8") if spec and spec.origin else ""
    return re.search(r"^(?:def main\(|from \S+ import .*\bmain\b)", source, re.MULTILINE) is not None
