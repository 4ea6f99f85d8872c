"""The ``plackett`` command: its subcommands, error messages and exit codes.

Exit codes: 0 success, 1 invalid input, 2 invalid command line, 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperCommand

from plackett._version import __version__
from plackett.base.errors import PlackettError, UsageError, message_of
from plackett.cli.auto import auto
from plackett.cli.clicks import clicks
from plackett.cli.compare import compare
from plackett.cli.console import ERR, OUT, Interrupted, show_warning, use_option_names
from plackett.cli.data import convert, describe
from plackett.cli.evaluate import evaluate
from plackett.cli.export import export, import_
from plackett.cli.inspect import inspect, metrics, objectives, recipes
from plackett.cli.options import expand_groups
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
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Listwise learning to rank: better rankings, and proof that they are better."""


class _Command(TyperCommand):
    """A command that explains how to change settings of a model."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except Exception as error:
            name = str(getattr(error, "option_name", "")).lstrip("-").replace("-", "_")
            takes_settings = any(parameter.name == "settings" for parameter in self.params)
            if name and takes_settings and name in _model_settings():
                raise UsageError(
                    f"there is no option --{name}; it is a setting of the model, which is changed "
                    f"with --set {name}=VALUE."
                ) from error
            raise


def _model_settings() -> set[str]:
    from plackett.models import RECIPES

    return {name for entry in RECIPES.values() for name in entry.kind().get_params()}


for command in (
    quickstart,
    train,
    auto,
    rank,
    evaluate,
    compare,
    tune,
    convert,
    clicks,
    describe,
    export,
    serve,
    reproduce,
    robustness,
    inspect,
    recipes,
    objectives,
    metrics,
):
    app.command(cls=_Command)(expand_groups(command))
app.command("import")(expand_groups(import_))  # "import" is a keyword of Python


def main() -> None:
    """Run the command line; an error of the user prints one line, not a traceback."""
    warnings.showwarning = show_warning
    for stream in (sys.stdout, sys.stderr):
        # Not every encoding has bars and marks; print a question mark instead of failing.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    try:
        app()
    except UsageError as error:
        _fail(error, code=2)
    except PlackettError as error:
        _fail(error, code=1)
    except BrokenPipeError:
        # The reader of the pipe has stopped; keep the interpreter from complaining when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        _fail(_describe_os_error(error), code=1)
    except MemoryError as error:
        detail = f" ({error})" if str(error) else ""
        _fail(f"out of memory{detail}; --stream needs less memory.", code=1)
    except (Interrupted, KeyboardInterrupt) as error:
        _fail(f"interrupted; {error or 'nothing was written.'}", code=130)


def _describe_os_error(error: OSError) -> str:
    return str(error) if error.filename is None else f"{error.filename}: {error.strerror}"


def _fail(error: Exception | str, *, code: int) -> None:
    text = escape(use_option_names(message_of(error)))
    ERR.print(f"[bold red]error:[/] {text}", highlight=False, soft_wrap=True)
    sys.exit(code)
