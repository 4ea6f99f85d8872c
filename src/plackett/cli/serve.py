"""``plackett serve``: models over HTTP."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from plackett.base.errors import require
from plackett.cli.console import ERR
from plackett.cli.options import DataOptions, find_test_set
from plackett.data import Dataset
from plackett.data.files import detect_format

_MB = 1 << 20


def serve(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]MODEL...",
            help="A model, or a folder whose subfolders are versions of a model. NAME is used in requests.",
        ),
    ],
    host: Annotated[str, "Address to listen on."] = "127.0.0.1",
    port: Annotated[int, "Port; 0 selects a free one."] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="PLACKETT_TOKEN",
            show_envvar=True,
            help="Bearer token that clients must send. Other users of this machine can read the "
            "command line, so set the variable instead.",
        ),
    ] = None,
    watch: Annotated[float, typer.Option(min=0, help="Seconds between checks of the models' folders; 0: never.")] = 2.0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Number of threads that score.  \\[default: one per processor]")
    ] = None,
    max_mb: Annotated[float, "Largest request body, in megabytes."] = 8.0,
    max_documents: Annotated[int, "Maximum number of documents in one list."] = 2000,
    max_lists: Annotated[int, "Maximum number of lists in one request."] = 64,
    concurrency: Annotated[
        int, "Maximum number of concurrent requests, including waiting ones; others get status 503."
    ] = 64,
    timeout: Annotated[float, "Time limit in seconds for receiving a request, and separately for answering it."] = 10.0,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds that a stopping server waits for running requests.")
    ] = 10.0,
    examples: Annotated[
        list[Path] | None, "Data set whose lists the page offers to try. Repeatable.  [default: random documents]"
    ] = None,
    quiet: Annotated[bool, "Do not log each request, only events of the server."] = False,
) -> None:
    """Serve models over HTTP: scores, rankings, explanations, and a page to try them on.

    Logs are lines of JSON on standard error. Models that change on disk are reloaded while requests
    are answered. On SIGTERM the server finishes the running requests and stops.
    """
    require("granian", "starlette", "msgspec", "prometheus_client")
    from plackett.serving.server import Examples, Limits, Settings, make_app
    from plackett.serving.server.run import check_port, exit_process, serve_app

    limits = Limits(
        body=int(max_mb * _MB), documents=max_documents, lists=max_lists, concurrency=concurrency, seconds=timeout
    )
    settings = Settings(
        host=host,
        port=port,
        token=token or None,
        limits=limits,
        watch=watch,
        grace=grace,
        log_requests=not quiet,
        **({} if threads is None else {"threads": threads}),
    )
    settings.check()
    free_port = check_port(settings)  # before models are loaded, which may take a while
    with ERR.status("loading models"):
        app = make_app(models, settings, examples=Examples(_read_examples(examples or [], models)))
    serve_app(app, port=free_port, on_ready=_show_address)
    exit_process()


def _read_examples(paths: Sequence[Path], models: list[str]) -> Dataset | None:
    from plackett.models.artifact import read_manifest
    from plackett.serving.server.registry import parse_sources

    if not paths:
        return None
    paths = find_test_set(paths)
    folders = parse_sources(models)[0].folders()
    if detect_format(paths[0]) == "letor" and folders:  # text may omit features that are zero
        n_features = read_manifest(folders[-1]).get("features", {}).get("count")
        return DataOptions(n_features=n_features).open(paths)
    return DataOptions(missing="nan").open(paths)


def _show_address(address: str) -> None:
    if ERR.is_terminal:
        ERR.print(f"try the models at [bold]{address}/[/]; Ctrl-C stops the server")
