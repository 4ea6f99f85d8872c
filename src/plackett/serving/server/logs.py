"""Logs as lines of JSON: what happened, never what was in a body.

Texts of clients (paths, ids of requests) are escaped by JSON and cut, so that they cannot forge a
line.
"""

from __future__ import annotations

import json
import sys
import threading
import traceback
from datetime import datetime, timezone
from typing import Any, TextIO

_LONGEST = 200  # characters of a text


class Log:
    """Writes events to a stream.

    Parameters
    ----------
    stream
        Where to; by default standard error.
    requests
        Write requests too, not only what happens to the server.
    """

    def __init__(self, stream: TextIO | None = None, *, requests: bool = True) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()
        self.requests = requests

    def write(self, event: str, *, level: str = "info", **facts: Any) -> None:
        """Write one line."""
        now = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
        line = {"time": now, "level": level, "event": event}
        line |= {key: _cut(value) for key, value in facts.items() if value is not None}
        try:
            with self._lock:
                self._stream.write(json.dumps(line) + "\n")
                self._stream.flush()
        except (OSError, ValueError):
            pass  # nobody reads any more: no reason to stop answering

    def failure(self, event: str, error: BaseException, **facts: Any) -> None:
        """Write where an error came from; not its text, which may hold what was in a body."""
        frames = traceback.extract_tb(error.__traceback__)
        places = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]
        self.write(event, level="error", error=type(error).__name__, at=places, **facts)


def _cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > _LONGEST:
        return value[:_LONGEST] + "..."
    return value
