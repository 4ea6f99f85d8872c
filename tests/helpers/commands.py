"""Commands as a person runs them, in this process."""

from __future__ import annotations

from typing import Any

import typer
from typer.testing import CliRunner, Result

from plackett.cli.options import expand_groups


def invoke(command: Any, *arguments: object) -> Result:
    """Run the function of a command with these arguments."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(expand_groups(command))
    return CliRunner().invoke(app, [str(argument) for argument in arguments])
