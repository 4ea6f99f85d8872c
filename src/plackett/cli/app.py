"""The ``plackett`` command: its subcommands, error messages and exit codes.

Exit codes: 0 success, 1 invalid input or a failing disk, store or cluster, 2 invalid command line, 130 interrupted.
"""

import io
import os
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from importlib import import_module
from typing import Annotated, Any

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup

from plackett._version import __version__
from plackett.base.compilation_notice import set_notice
from plackett.base.errors import PlackettError, UsageError, message_of
from plackett.cli import console

COMMANDS = {
    "quickstart": "Generate a data set, train models, compare them, and write a report.",
    "train": "Train a model and write it to disk.",
    "auto": "Find the best model within a time limit, and write it to disk.",
    "rank": "Score documents with a model: rankings, best document first, or scores row by row.",
    "evaluate": "Print metrics of a model or ranking, with paired tests against a baseline if one is given.",
    "compare": "Train models on the same lists, compare them, and write tables and a report.",
    "tune": "Search for the settings of a model that are best on validation lists.",
    "convert": "Convert a data set to LETOR text, Parquet, Arrow or the memory-mapped form (.pkdata).",
    "clicks": "Turn a click log into training data, with weights that correct for position bias.",
    "describe": "Print statistics of a data set, with histograms of list lengths and labels.",
    "export": "Write a model to a file that a search engine or another library loads.",
    "serve": "Serve models over HTTP: scores, rankings, explanations, and a page to try them on.",
    "verify": "Check the checksums of a model or a memory-mapped data set, and the signature of a model.",
    "reproduce": "Reproduce the tables and figures of a paper, next to the published numbers.",
    "robustness": "Train models on increasingly noisy data, and show how much quality they lose.",
    "inspect": "Describe a saved model: objective, settings, learning curve, importances, training data.",
    "recipes": "List the recipes: models with their objectives and settings, to train and compare by name.",
    "objectives": "List the objectives and their parameters, which --set objective.PARAMETER=VALUE changes.",
    "metrics": "List the metrics, their options and the conventions that define them.",
    "warmup": "Compile all kernels ahead of time, so that later commands need not compile them.",
    "import": "Import a model trained elsewhere, to rank, evaluate, compare and serve it.",
}
"""The summary of each command: the first paragraph of its docstring.

It is repeated here so that ``plackett --help`` need not import the libraries of all commands.
"""
_SHARED = {
    "compare": ("quickstart",),
    "data": ("convert", "describe"),
    "export": ("import", "verify"),
    "inspect": ("recipes", "objectives", "metrics"),
}  # modules, and the commands in them whose names differ from the module's


def command_function(name: str) -> Callable[..., None]:
    """Import the function of a command."""
    stem = next((stem for stem, names in _SHARED.items() if name in names), name)
    module = import_module(f"plackett.cli.{stem}")
    function: Callable[..., None] = getattr(module, "import_" if name == "import" else name)
    return function


def _load_command(name: str) -> Any:
    from plackett.cli.options import expand_groups

    single = typer.Typer(add_completion=False, rich_markup_mode="rich")
    single.command(name, cls=_Command)(expand_groups(command_function(name)))
    return typer.main.get_command(single)


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
                    f"there is no option --{name}; to change this setting of the model, use --set {name}=VALUE."
                ) from error
            raise


def _model_settings() -> set[str]:
    from plackett.models import RECIPES

    kinds = {entry.kind for entry in RECIPES.values()}
    return {name for kind in kinds for name in (*kind().get_params(), *kind.aliases)}


class _Commands(TyperGroup):
    """Imports the module of a command when the command runs."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {name: TyperCommand(name, help=summary) for name, summary in COMMANDS.items()}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and name and _load_command(name), rest


app = typer.Typer(
    name="plackett",
    cls=_Commands,
    help="Listwise learning to rank: better rankings, and proof that they are better.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(show: bool) -> None:
    if show:
        console.print_text(f"plackett {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Listwise learning to rank: better rankings, and proof that they are better."""


def main() -> None:
    """Run the command line; a user error prints one line instead of a traceback."""
    warnings.showwarning = console.show_warning
    console.show_log()
    is_quiet = bool({"--json", "--quiet"} & set(sys.argv))
    set_notice((lambda _: nullcontext()) if is_quiet else console.compilation_notice)
    for stream in (sys.stdout, sys.stderr):
        # Some encodings lack the characters of bars and marks: print a question mark instead of failing.
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
        _fail(str(error) if error.filename is None else f"{error.filename}: {error.strerror}", code=1)
    except MemoryError as error:
        detail = f" ({error})" if str(error) else ""
        _fail(f"out of memory{detail}; --stream needs less memory.", code=1)
    except (console.Interrupted, KeyboardInterrupt) as error:
        _fail(f"interrupted; {error or 'nothing was written.'}", code=130)


def _fail(error: Exception | str, *, code: int) -> None:
    text = escape(console.use_option_names(message_of(error)))
    console.ERR.print(f"[bold red]error:[/] {text}", soft_wrap=True)
    sys.exit(code)
