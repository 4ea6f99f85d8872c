"""Running the server: Granian's HTTP in this process, signals, and an eye on the folders.

Granian (Rust, hyper) reads requests outside the interpreter's lock. For bodies of 100 documents
that is the larger part of the work: measured on loopback, 2.5 times as many of them per second as
uvicorn with httptools and uvloop.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Callable
from typing import Any

from plackett.base.errors import UsageError
from plackett.serving.server.app import App
from plackett.serving.server.settings import Settings

_BACKLOG = 1024
_CONNECTIONS = 1024  # open at a time; further ones wait to be accepted


def run(app: App, *, port: int, ready: Callable[[str], None] = lambda _: None) -> None:
    """Serve until SIGINT or SIGTERM, then let requests under way end.

    Parameters
    ----------
    app
        What to serve, at the host of its settings.
    port
        Where; see :func:`port_for`.
    ready
        Called with the server's address when it listens.
    """
    try:
        asyncio.run(_serve(app, port, ready))
    finally:
        app.close()


async def _serve(app: App, port: int, ready: Callable[[str], None]) -> None:
    server = _server(app, port)
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
        models = {model.name: model.version for model in app.shelf.catalogue.all()}
        app.log.write("listening", address=address, models=models)
        ready(address)
    await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
    app.draining = True
    app.log.write("stopping", under_way=app.metrics.in_flight)
    watching.cancel()
    stopping.cancel()
    server.stop()
    done, _ = await asyncio.wait({serving}, timeout=app.settings.grace)
    app.log.write("stopped", cut_off=app.metrics.in_flight)
    if not done:
        # Clients that never finish sending must not keep the process alive.
        os._exit(0)
    serving.result()


async def _watch(app: App) -> None:
    while app.settings.watch > 0:
        await asyncio.sleep(app.settings.watch)
        try:
            await app.refresh()
        except Exception as error:  # whatever it is, the models that are there go on
            app.log.failure("reload failed", error)


def _server(app: App, port: int) -> Any:
    try:
        from granian.constants import HTTPModes, Interfaces
        from granian.http import HTTP1Settings
        from granian.server.embed import Server
    except ImportError as error:
        raise ImportError("plackett serve needs Granian: pip install 'plackett[serve]'") from error
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
        backpressure=_CONNECTIONS,
        log_enabled=False,
        # Also the time that an idle connection is kept open.
        http1_settings=HTTP1Settings(header_read_timeout=max(int(1000 * seconds), 1)),
    )


def port_for(settings: Settings) -> int:
    """The port, or a free one for 0; an address that cannot be used is refused here.

    Granian shares ports between processes, so a second server would take half of the first one's
    requests without a word.
    """
    host = settings.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, settings.port))
        except OSError as error:
            where = _address(settings.host, settings.port)
            raise UsageError(f"cannot listen at {where}: {error.strerror or error}.") from error
        return int(probe.getsockname()[1])


def _address(host: str, port: int) -> str:
    return f"http://[{host.strip('[]')}]:{port}" if ":" in host else f"http://{host}:{port}"
