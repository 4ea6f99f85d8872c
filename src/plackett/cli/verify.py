"""``plackett verify``: whether a model or a data set is what was written."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from plackett.base.errors import DataError, UsageError
from plackett.cli.console import OUT, byte_progress, print_json
from plackett.cli.options import Json
from plackett.data.mapped import verify_mapped


def verify(
    path: Annotated[Path, typer.Argument(help="Folder of a model, or a .pkdata directory.")],
    sign_key: Annotated[
        Path | None,
        typer.Option(help="File of the key that a model must be signed with (train --sign-key)."),
    ] = None,
    json: Json = False,
) -> None:
    """Check all checksums of a model or of a memory-mapped data set, and a model's signature.

    The exit code is 1 if something differs from what was written.
    """
    from plackett.base.checksums import read_key
    from plackett.models.artifact.load import load
    from plackett.models.artifact.manifest import is_model, is_signed, read_manifest

    if is_model(path):
        key = None if sign_key is None else read_key(sign_key)
        manifest = read_manifest(path, key)
        if manifest.get("module") is None:  # a module of the user's is needed to load it
            load(path)
        covered = "all" if manifest["version"] > 1 else "files"
        signature = "valid" if key else "not checked" if is_signed(manifest) else "none"
        facts = {"model": str(path), "covered": covered, "signature": signature}
        text = "the checksums of all its files are right" + (
            "" if covered == "all" else "; format 1 has none of the manifest: save it again"
        )
        text += f"; signature: {signature}"
    else:
        if sign_key is not None:
            raise UsageError(f"{path} is not a model; only models are signed.")
        if not path.is_dir():
            raise DataError(
                "is neither a model nor a .pkdata directory, which alone have checksums",
                path=str(path),
            )
        with byte_progress(f"reading {path.name}") as progress:
            checked = verify_mapped(path, progress)
        facts = {"data": str(path), "covered": "all" if checked else "none", "signature": "none"}
        text = "the checksums of all its blocks are right"
        if not checked:
            text = "has no checksums, and its values are in range; convert it again to add them"
    if json:
        print_json(facts)
        return
    OUT.print(f"{path}: {text}", highlight=False, soft_wrap=True, markup=False)
