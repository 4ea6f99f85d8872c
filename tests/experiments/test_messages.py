from __future__ import annotations

import io

import pytest

from plackett.base.errors import UsageError
from plackett.experiments.runners import receive, send


def test_what_cannot_be_sent_is_told_and_leaves_nothing_behind() -> None:
    stream = io.BytesIO()
    with pytest.raises(UsageError, match="define functions and modules in a file"):
        send(stream, ["x" * 100_000, lambda n: n])
    assert stream.getvalue() == b""
    send(stream, {"a": 1})
    stream.seek(0)
    assert receive(stream) == {"a": 1}
