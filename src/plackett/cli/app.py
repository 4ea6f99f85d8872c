"""All commands under one name, with one way to fail.

Exit codes: 0 done, 1 the input is wrong, 2 the command line is wrong, 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from typing import Annotated

import typer
from rich.markup import escape

from plackett._version import __version__
from plackett.base.errors import PlackettError, UsageError
from plackett.cli.clicks import clicks
from plackett.cli.compare import compare
from plackett.cli.console import ERR, OUT, show_warning, spoken
from plackett.cli.data import convert, describe
from plackett.cli.evaluate import evaluate
from plackett.cli.export import export, import_
from plackett.cli.quickstart import quickstart
from plackett.cli.rank import rank
from plackett.cli.reproduce import reproduce
from plackett.cli.robustness import robustness
from plackett.cli.serve import serve
from plackett.cli.train import train
from plackett.cli.tune import tune

app = typer.Typer(
    name="plackett",
    help="Listwise learning to rank: better rankings, and proof that they are better.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(show: bool) -> None:
    if show:
        OUT.print(f"plackett {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Listwise learning to rank: better rankings, and proof that they are better."""


for command in (
    quickstart,
    train,
    rank,
    evaluate,
    compare,
    tune,
    convert,
    clicks,
    describe,
    export,
    serve,
):
    app.command()(command)
app.command()(reproduce)
app.command()(robustness)
app.command("import")(import_)  # the word belongs to Python


def main() -> None:
    """Run the command line; errors of the user end in one line, not in a traceback."""
    warnings.showwarning = show_warning
    for stream in (sys.stdout, sys.stderr):
        # Bars and marks are not in every encoding; a question mark is better than a traceback.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except UsageError as error:
        _fail(error, code=2)
    except PlackettError as error:
        _fail(error, code=1)
    except BrokenPipeError:
        # The reader has seen enough; the interpreter must not complain when it closes the pipe.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _fail(_reason(error), code=1)
    except MemoryError as error:
        said = f" ({error})" if str(error) else ""
        _fail(f"out of memory{said}; commands with --stream need less.", code=1)
    except KeyboardInterrupt:
        _fail("interrupted", code=130)


def _reason(error: OSError) -> str:
    return str(error) if error.filename is None else f"{error.filename}: {error.strerror}"


def _fail(error: object, *, code: int) -> None:
    ERR.print(f"[bold red]error:[/] {escape(spoken(str(error)))}", highlight=False, soft_wrap=True)
    sys.exit(code)
