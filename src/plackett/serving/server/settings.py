"""Settings of a server: address, token and limits."""

import ipaddress
import os
from dataclasses import dataclass, field

from plackett.base.errors import UsageError

MIN_TOKEN_LENGTH = 16
"""A shorter token can be guessed."""


@dataclass(frozen=True)
class Limits:
    """How much one client may ask for.

    Parameters
    ----------
    body
        Bytes of a body.
    documents
        Documents of a list.
    lists
        Lists of a batch.
    concurrency
        Requests that are being scored or waiting; others get status 503.
    seconds
        Time limit for receiving a request, and separately for answering it.
    explained
        Documents of a request for explanations.
    """

    body: int = 8 << 20
    documents: int = 2000
    lists: int = 64
    concurrency: int = 64
    seconds: float = 10.0
    explained: int = 200

    def check(self) -> None:
        """Raise UsageError for limits that are not positive."""
        for name, value in vars(self).items():
            if not value > 0:
                raise UsageError(f"the limit on {name} must be above 0, got {value}.")


@dataclass(frozen=True)
class Settings:
    """Where a server listens and whom it answers.

    Parameters
    ----------
    host, port
        Address to listen at; port 0 selects a free one.
    token
        What clients must send as ``Authorization: Bearer ...``. With None, every client on this
        machine is answered; this is not allowed for addresses that other machines can reach.
    limits
        How much one client may ask for.
    threads
        Threads that read and score.
    watch
        Seconds between checks of the models' folders; 0 disables them.
    grace
        Seconds that running requests get when the server stops.
    log_requests
        Log each request.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    token: str | None = field(default=None, repr=False)
    limits: Limits = Limits()
    threads: int = field(default_factory=lambda: os.cpu_count() or 1)
    watch: float = 2.0
    grace: float = 10.0
    log_requests: bool = True

    def check(self) -> None:
        """Raise UsageError for settings that are unsafe or make no sense."""
        self.limits.check()
        if not 0 <= self.port <= 0xFFFF:
            raise UsageError(f"a port is a number from 0 to 65535, got {self.port}.")
        if self.threads < 1 or self.watch < 0 or self.grace < 0:
            raise UsageError("threads must be at least 1, watch and grace at least 0.")
        if self.token is not None:
            is_printable = self.token.isascii() and self.token.isprintable() and " " not in self.token
            if len(self.token) < MIN_TOKEN_LENGTH or not is_printable:
                raise UsageError(
                    f"a token needs at least {MIN_TOKEN_LENGTH} printable ASCII characters without spaces; "
                    "make one with: python -c 'import secrets; print(secrets.token_urlsafe())'"
                )
        elif not self.is_loopback:
            raise UsageError(
                f"{self.host} can be reached from other machines: set a token that clients must send (the environment "
                "variable PLACKETT_TOKEN, or --token), or listen at 127.0.0.1."
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:  # a host name, which may resolve to any address
            return False
