from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from plackett.cli.app import COMMANDS, app, command_function


@pytest.mark.parametrize("name", COMMANDS)
def test_summaries_are_those_of_the_docstrings(name: str) -> None:
    first, *_ = str(command_function(name).__doc__).strip().split("\n\n")
    assert " ".join(first.split()) == COMMANDS[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str) -> None:
    result = CliRunner().invoke(app, [name, "--help"])
    assert result.exit_code == 0
    assert COMMANDS[name].split(":")[0][:40] in " ".join(result.output.split())


def test_the_list_of_commands_needs_no_heavy_library() -> None:
    code = (
        "import sys; from plackett.cli.app import app; app(['--help'], standalone_mode=False);"
        "sys.exit(bool({'numpy', 'numba', 'scipy', 'lightgbm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0
    assert all(f" {name} " in done.stdout for name in COMMANDS)


def test_a_mistyped_command_gets_a_suggestion() -> None:
    result = CliRunner().invoke(app, ["trian"])
    assert result.exit_code == 2
    assert "Did you mean 'train'" in result.output
