"""Messages between a process and the one that speaks with Ray for it, over pipes.

Objects are pickled with Ray's cloudpickle, so that objectives and modules defined in a user's own
script can go to other machines.
"""

from __future__ import annotations

import pickle
import queue
import threading
from typing import IO, Any

_PROTOCOL = 5  # arrays are written as they are, without a copy


class Line:
    """One end of a line."""

    def __init__(self, incoming: IO[bytes], outgoing: IO[bytes]) -> None:
        self._incoming, self._outgoing = incoming, outgoing
        self._received: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self.closed = threading.Event()
        """Set when the other side is gone."""
        self._listener = threading.Thread(target=self._listen, name="line", daemon=True)
        self._listener.start()

    def send(self, message: Any) -> None:
        """Send a message; BrokenPipeError if the other side is gone."""
        from ray.cloudpickle import CloudPickler

        with self._guard:
            CloudPickler(self._outgoing, protocol=_PROTOCOL).dump(message)
            self._outgoing.flush()

    def receive(self, seconds: float) -> Any:
        """The next message; TimeoutError if there is none in time, EOFError at the end."""
        try:
            found = self._received.get(timeout=seconds)
        except queue.Empty:
            raise TimeoutError from None
        if isinstance(found, EOFError):
            raise found
        return found

    def _listen(self) -> None:
        try:
            while True:
                self._received.put(pickle.load(self._incoming))
        except Exception as error:  # whatever breaks a line ends it
            self.closed.set()
            self._received.put(EOFError(str(error)))

    def join(self) -> None:
        """Wait for the thread that listens; the other side must be gone."""
        self._listener.join()
