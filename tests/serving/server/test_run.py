"""Real servers on loopback: killed, stopped, reloaded under load, and asked by rude clients."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import threading
import time

import pytest

pytest.importorskip("granian", reason="pip install 'plackett[serve]'")

from plackett.base.errors import UsageError
from plackett.cli.serve import serve
from server_harness import TOKEN, Process, answer_of, message
from serving_models import documents, fitted

X = documents(60, seed=4)
BODY = json.dumps({"documents": X.tolist()}).encode()


@pytest.fixture(scope="module")
def expected():
    return {name: fitted(name).predict(X).tolist() for name in ("trees", "linear")}


@pytest.fixture(scope="module")
def server(saved, tmp_path_factory):
    """A server with tight limits that the tests of this file share."""
    log = tmp_path_factory.mktemp("log") / "log"
    options = ("--max-mb", "0.25", "--timeout", "1.5", "--watch", "0")
    result = Process([saved("trees")], *options, log=log).wait_until_ready()
    yield result
    assert result.stop() == 0
    assert "Traceback" not in log.read_text()


def scores_of(server, **options):
    status, body = server.ask("POST", "/rank", BODY, **options)
    assert status == 200, body
    return json.loads(body)["scores"]


def test_answers_are_right_and_connections_stay_open(server, expected) -> None:
    with server.connect() as connection:
        for _ in range(5):
            connection.sendall(message("POST", "/rank", BODY))
            status, body = answer_of(connection)
            assert status == 200
            assert json.loads(body)["scores"] == expected["trees"]
    assert server.ask("GET", "/models/%FF%00%22")[0] == 404
    assert server.ask("GET", "/models/trees/../../etc/passwd")[0] == 404


def test_oversized_bodies_get_their_reason_and_harm_nobody(server, expected) -> None:
    large = b"[" * (3 << 20)
    status, body = server.ask("POST", "/rank", large)
    assert status == 413
    assert b"bytes" in body
    # Chunks without end: no length is told, and the client never stops by itself.
    with server.connect() as connection:
        head = message("POST", "/rank", headers={"Content-Length": None, "Transfer-Encoding": "chunked"})
        connection.sendall(head)
        chunk = b"10000\r\n" + b"1" * 0x10000 + b"\r\n"
        sent = 0
        try:
            while sent < 512 << 20:
                connection.sendall(chunk)
                sent += len(chunk)
        except OSError:
            pass  # the server has had enough
        assert sent < 512 << 20
    assert scores_of(server) == expected["trees"]


def test_slow_clients_are_cut_off_and_others_are_not_kept_waiting(server, expected) -> None:
    slow = [server.connect() for _ in range(40)]
    for i, connection in enumerate(slow):
        if i % 2:
            connection.sendall(b"POST /rank HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ")  # no end of headers
        else:
            connection.sendall(message("POST", "/rank", b"{", {"Content-Length": "100"}))
    assert scores_of(server, timeout=10) == expected["trees"]
    answers = []
    for i, connection in enumerate(slow):
        connection.settimeout(10)
        try:
            answers.append((i % 2, answer_of(connection)[0]))
        except ConnectionError:
            answers.append((i % 2, None))
        connection.close()
    assert {status for header, status in answers if header} <= {None, 408}
    assert {status for header, status in answers if not header} == {408}


@pytest.mark.parametrize(
    "rude",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /rank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /rank HTTP/1.1\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"POST /rank HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 2_000_000,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
)
def test_what_is_not_http_is_refused(server, expected, rude) -> None:
    with server.connect(timeout=10) as connection:
        received = b""
        try:
            connection.sendall(rude)
            received = connection.recv(100)
        except OSError:
            pass
        assert not received or received.startswith(b"HTTP/1.1 4")
    assert scores_of(server) == expected["trees"]


def test_clients_that_leave_early_harm_nobody(server, expected) -> None:
    for cut in (10, len(BODY) // 2, len(BODY) + 100, None):
        with server.connect() as connection:
            connection.sendall(message("POST", "/rank", BODY)[:cut])
    assert scores_of(server) == expected["trees"]


def test_an_address_that_cannot_be_used_is_an_error(server, saved, monkeypatch) -> None:
    with pytest.raises(UsageError, match=r"cannot listen at .*in use"):
        serve([str(saved("trees"))], port=server.port)
    with pytest.raises(UsageError, match="PLACKETT_TOKEN"):
        serve([str(saved("trees"))], host="0.0.0.0")
    monkeypatch.setitem(sys.modules, "granian", None)
    with pytest.raises(UsageError, match="needs Granian, which is not installed"):
        serve([str(saved("trees"))], port=0)


class Clients:
    """Threads that ask all the time; every answer is kept."""

    def __init__(self, server, count=3, headers=None):
        self.server, self.headers = server, headers
        self.answers, self.failures = [], []
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run) for _ in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self):
        while not self._stop.is_set():
            try:
                status, body = self.server.ask("POST", "/rank", BODY, self.headers)
                self.answers.append((status, json.loads(body)))
            except OSError as error:
                self.failures.append((time.monotonic(), error))
                time.sleep(0.02)

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=30)

    def check(self, expected):
        by_version = {}
        for status, answer in self.answers:
            assert status == 200, answer
            by_version.setdefault(answer["version"], []).append(answer["scores"])
        for scores in by_version.values():
            assert all(score == scores[0] for score in scores)
            assert scores[0] in expected.values()
        return by_version


def test_reload_under_load_drops_nothing_and_mixes_nothing(saved, tmp_path, expected) -> None:
    folder = tmp_path / "m.plackett"
    shutil.copytree(saved("trees"), folder)
    server = Process([folder], "--watch", "0.1", log=tmp_path / "log", token=TOKEN)
    headers = {"Authorization": f"Bearer {TOKEN}"}
    try:
        server.wait_until_ready()
        clients = Clients(server, headers=headers)
        for name in ("linear", "trees", "linear"):
            fitted(name).save(folder)
            if name == "trees":
                assert server.ask("POST", "/admin/reload", b"", headers)[0] == 200
            end = time.monotonic() + 30
            while scores_of(server, headers=headers) != expected[name]:
                assert time.monotonic() < end
                time.sleep(0.02)
        clients.stop()
        assert clients.failures == []
        assert len(clients.check(expected)) == 2
        check_graceful_stop(server, headers, expected["linear"])
    finally:
        server.stop()


def check_graceful_stop(server, headers, expected):
    """What is under way is answered; who comes later is not; the process ends well."""
    idle = server.connect()
    with server.connect() as connection:
        whole = message("POST", "/rank", BODY, headers)
        connection.sendall(whole[:-100])
        time.sleep(0.3)
        server.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
        with pytest.raises(OSError):  # noqa: PT011 - refused or reset, as the system likes
            server.ask("GET", "/health", timeout=2)
        connection.sendall(whole[-100:])
        status, body = answer_of(connection)
    idle.close()
    assert status == 200
    assert json.loads(body)["scores"] == expected
    assert server.process.wait(timeout=30) == 0
    assert server.lines()[-1]["cut_off"] == 0


def test_kill_and_restart_gives_right_answers_again(saved, tmp_path, expected) -> None:
    server = Process([saved("trees")], log=tmp_path / "log").wait_until_ready()
    clients = Clients(server)
    try:
        while len(clients.answers) < 5:
            time.sleep(0.02)
        server.kill()
        before = len(clients.answers)
        again = Process([saved("trees")], "--grace", "0.5", port=server.port, log=tmp_path / "again")
        server.process, server.log = again.process, again.log
        server.wait_until_ready()
        while len(clients.answers) < before + 5:
            time.sleep(0.02)
        clients.stop()
        assert clients.failures  # while nobody listened
        clients.check(expected)
        with server.connect() as connection:  # a client that never ends does not hold the server
            connection.sendall(message("POST", "/rank", b"{", {"Content-Length": "100"}))
            time.sleep(0.2)
            server.process.send_signal(signal.SIGINT)
            assert server.process.wait(timeout=10) == 0
        assert server.lines()[-1]["cut_off"] == 1
    finally:
        clients.stop()
        server.stop()


def test_memory_and_descriptors_do_not_grow(server) -> None:
    def reading():
        _, text = server.ask("GET", "/metrics")
        line = next(x for x in text.decode().splitlines() if x.startswith("process_resident"))
        return float(line.split()[1])

    def burst():
        for _ in range(60):
            scores_of(server)
            server.ask("POST", "/rank", BODY[:-1])

    burst()
    before = reading()
    burst()
    assert reading() - before < 20e6
