"""Running the server: Granian in this process, signals, and checks for changed models.

Granian (Rust, hyper) reads requests without holding the interpreter's lock. For bodies of 100
documents this is the larger part of the work: on loopback, Granian handled 2.5 times as many per
second as uvicorn with httptools and uvloop.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any, NoReturn

from prometheus_client import disable_created_metrics

from plackett.base.errors import UsageError, require
from plackett.serving.server.app import App
from plackett.serving.server.settings import Settings

_BACKLOG = 1024
_MAX_CONNECTIONS = 1024  # further ones wait to be accepted


def serve_app(app: App, *, port: int, on_ready: Callable[[str], None] = lambda _: None) -> None:
    """Serve until SIGINT or SIGTERM, then finish running requests; ``on_ready`` gets the server's address."""
    disable_created_metrics()  # type: ignore[no-untyped-call]  # one time series per counter, not two
    try:
        asyncio.run(_serve(app, port, on_ready))
    finally:
        app.close()


def exit_process() -> NoReturn:
    """End the process without finalizing the interpreter.

    A thread of Granian that returns to Python during the finalization aborts the process, so a clean
    stop would have the exit code of a failure.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


async def _serve(app: App, port: int, on_ready: Callable[[str], None]) -> None:
    server = _make_server(app, port)
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C ends the loop
            loop.add_signal_handler(number, stop.set)
    serving = loop.create_task(server.serve())
    watching = loop.create_task(_watch(app))
    stopping = loop.create_task(stop.wait())
    address = _address(app.settings.host, port)
    await asyncio.sleep(0)  # binds the port
    if not serving.done():
        models = {model.name: model.version for model in app.registry.catalog.all()}
        app.log.write("listening", address=address, models=models)
        on_ready(address)
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    app.is_draining = True
    app.log.write("stopping", under_way=app.metrics.in_flight)
    watching.cancel()
    stopping.cancel()
    server.stop()
    done, _ = await asyncio.wait({serving}, timeout=app.settings.grace)
    app.log.write("stopped", cut_off=app.metrics.in_flight)
    if not done:
        exit_process()  # clients that never finish sending must not keep the process alive
    serving.result()


async def _watch(app: App) -> None:
    while app.settings.watch > 0:
        await asyncio.sleep(app.settings.watch)
        try:
            await app.refresh()
        except Exception as error:  # the loaded models are still served
            app.log.failure("reload failed", error)


def _make_server(app: App, port: int) -> Any:
    require("granian")
    from granian.constants import HTTPModes, Interfaces
    from granian.http import HTTP1Settings
    from granian.server.embed import Server

    logging.getLogger("_granian").disabled = True
    seconds = app.settings.limits.seconds
    return Server(
        app,
        address=app.settings.host.strip("[]"),
        port=port,
        interface=Interfaces.ASGINL,
        http=HTTPModes.http1,
        websockets=False,
        backlog=_BACKLOG,
        backpressure=_MAX_CONNECTIONS,
        log_enabled=False,
        # Also the time that an idle connection is kept open.
        http1_settings=HTTP1Settings(header_read_timeout=max(int(1000 * seconds), 1)),
    )


def check_port(settings: Settings) -> int:
    """The port, or a free one for 0; raises UsageError for an address that cannot be used.

    Granian shares ports between processes, so a second server would silently receive half of the requests of the first.
    """
    host = settings.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, settings.port))
        except OSError as error:
            address = _address(settings.host, settings.port)
            raise UsageError(f"cannot listen at {address}: {error.strerror or error}.") from error
        return int(probe.getsockname()[1])


def _address(host: str, port: int) -> str:
    return f"http://[{host.strip('[]')}]:{port}" if ":" in host else f"http://{host}:{port}"
