"""Who may ask, how much, and what is told about it: tokens, limits, metrics and logs."""

from __future__ import annotations

import asyncio
import json
import re
import threading

import pytest

pytest.importorskip("starlette", reason="pip install 'plackett[serve]'")

from prometheus_client.parser import text_string_to_metric_families
from starlette.datastructures import Headers

from plackett.base.errors import UsageError
from plackett.serving.server import Limits, Settings
from plackett.serving.server.http import AccessPolicy, HTTPError
from server_harness import TOKEN, app_of, ask, call, logged
from serving_models import documents

X = documents(30, seed=3)


def rank(app, body, path="/rank", **options):
    return ask(app, "POST", path, body, **options)


# ---- who may ask --------------------------------------------------------------------------------


def test_a_token_is_asked_for(saved) -> None:
    with app_of({"m": saved("trees")}, token=TOKEN) as app:
        body = {"documents": X.tolist()}
        wrong = ("", "Bearer no", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xff")
        for header in ({"authorization": item} for item in wrong):
            for path in ("/rank", "/models/m/explain", "/admin/reload"):
                result = rank(app, body, path, headers=header)
                assert result.status == 401
                assert result.headers["www-authenticate"] == "Bearer"
            assert ask(app, "GET", "/metrics", headers=header).status == 401
        right = {"authorization": f"bearer {TOKEN}", "host": "any.example"}
        assert rank(app, body, headers=right).status == 200
        assert rank(app, b"", "/admin/reload", headers=right).json["problems"] == []
        for path in ("/", "/health", "/ready", "/openapi.json"):
            assert ask(app, "GET", path).status == 200
        assert TOKEN not in app.stream.getvalue()
        assert TOKEN not in repr(app.settings)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_other_machines_need_a_token(host) -> None:
    with pytest.raises(UsageError, match="PLACKETT_TOKEN"):
        Settings(host=host).check()
    Settings(host=host, token=TOKEN).check()


def test_two_host_headers_are_a_bad_request() -> None:
    for settings in (Settings(), Settings(token=TOKEN)):
        with pytest.raises(HTTPError, match="several Host headers") as caught:
            AccessPolicy(settings).check_host(Headers(raw=[(b"host", b"127.0.0.1"), (b"host", b"example.org")]))
        assert caught.value.status == 400


def test_settings_that_cannot_be_meant_are_refused() -> None:
    for host in ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost"):
        Settings(host=host).check()
    for token in ("short", "with a blank in it here", "ümlaut" * 5, "line\nbreak" * 3):
        with pytest.raises(UsageError, match="16 printable ASCII"):
            Settings(token=token).check()
    for limits in (Limits(body=0), Limits(documents=-1), Limits(seconds=0), Limits(lists=0)):
        with pytest.raises(UsageError, match="above 0"):
            Settings(limits=limits).check()
    with pytest.raises(UsageError, match="65535"):
        Settings(port=70_000).check()


# ---- limits -------------------------------------------------------------------------------------


def test_large_bodies_are_refused_however_they_come(saved) -> None:
    with app_of({"m": saved("trees")}, limits=Limits(body=1000)) as app:
        told = rank(app, b"x" * 2000, headers={"content-length": "2000"})
        chunked = rank(app, b"", chunks=[b"[" * 400] * 5)
        lying = rank(app, b"", chunks=[b"[" * 400] * 5, headers={"content-length": "10"})
        odd = rank(app, b"{}", headers={"content-length": "x"})
    for actual in (told, chunked, lying):
        assert actual.status == 413
        assert "1000 bytes" in actual.detail
        assert actual.headers["connection"] == "close"
    assert odd.status == 422


def test_slow_bodies_are_cut_off(saved) -> None:
    with app_of({"m": saved("trees")}, limits=Limits(seconds=0.1)) as app:
        result = rank(app, b"", chunks=[b"{"] * 50, pause=0.05)
    assert result.status == 408
    assert "0.1 seconds" in result.detail


def test_clients_that_leave_are_noted(saved) -> None:
    with app_of({"m": saved("trees")}) as app:
        assert rank(app, b"", chunks=[]) is None
        assert [line["status"] for line in logged(app)] == [499]
        assert app.metrics.in_flight == 0


def test_too_many_at_a_time_are_told_to_come_back(saved) -> None:
    limits = Limits(concurrency=2, seconds=5)
    with app_of({"m": saved("trees")}, limits=limits, threads=1) as app:
        gate = threading.Event()
        model = app.registry.catalog.find(None, None)
        inner = model.scorer
        object.__setattr__(model, "scorer", lambda f, o: gate.wait(10) and inner(f, o))
        body = json.dumps({"documents": X.tolist()}).encode()

        async def crowd():
            tasks = [asyncio.create_task(call(app, "POST", "/rank", body)) for _ in range(5)]
            while sum(task.done() for task in tasks) < 3:
                await asyncio.sleep(0.01)
            gate.set()
            return await asyncio.gather(*tasks)

        result = asyncio.run(crowd())
        assert sorted(item.status for item in result) == [200, 200, 503, 503, 503]
        refused = next(item for item in result if item.status == 503)
        assert refused.headers["retry-after"] == "1"
        assert app.metrics.scoring == 0


def test_what_takes_too_long_is_given_up(saved) -> None:
    with app_of({"m": saved("trees")}, limits=Limits(seconds=0.2), threads=1) as app:
        gate = threading.Event()
        model = app.registry.catalog.find(None, None)
        object.__setattr__(model, "scorer", lambda *_: gate.wait(10))
        body = json.dumps({"documents": X.tolist()}).encode()

        async def late():
            result = await call(app, "POST", "/rank", body)
            held = app.metrics.scoring  # the thread is still at it
            gate.set()
            while app.metrics.scoring:
                await asyncio.sleep(0.01)
            return result, held

        result, held = asyncio.run(late())
    assert result.status == 504
    assert held == 1


def test_too_many_documents_to_explain_are_refused(saved) -> None:
    with app_of({"m": saved("trees")}, limits=Limits(explained=10)) as app:
        result = rank(app, {"documents": X.tolist()}, "/explain")
    assert result.status == 413
    assert "10 are explained" in result.detail


def test_a_fault_of_ours_is_told_without_what_was_sent(saved) -> None:
    with app_of({"m": saved("trees")}) as app:
        model = app.registry.catalog.find(None, None)

        def fail(*_):
            raise ValueError("secret 123.456")

        object.__setattr__(model, "scorer", fail)
        result = rank(app, {"documents": [[123.456] * 6]}, headers={"x-request-id": "abc-1"})
        assert result.status == 500
        assert "abc-1" in result.detail
        line = logged(app)[0]
        assert (line["event"], line["error"], line["id"]) == ("failure", "ValueError", "abc-1")
        assert "123.456" not in app.stream.getvalue()


# ---- health, metrics, logs ----------------------------------------------------------------------


def read_metrics(text):
    """Values by name and labels, and the types of all metrics."""
    families = list(text_string_to_metric_families(text))
    samples = [sample for family in families for sample in family.samples]
    values = {(s.name, *s.labels.values()): s.value for s in samples}
    assert len(values) == len(samples)
    return values, {family.name: family.type for family in families}


def test_metrics_count_what_was_done(saved) -> None:
    with app_of({"m": saved("trees")}) as app:
        rank(app, {"lists": [{"documents": X.tolist()}] * 2})
        rank(app, b"broken")
        ask(app, "GET", "/models/a%22b")
        text = ask(app, "GET", "/metrics").body.decode()
        version = app.registry.catalog.find(None, None).version
    values, types = read_metrics(text)
    assert values["plackett_requests_total", "/rank", "200"] == 1
    assert values["plackett_requests_total", "/rank", "400"] == 1
    assert values["plackett_lists_total", "m", version] == 2
    assert values["plackett_documents_total", "m", version] == 60
    assert values["plackett_model_info", "m", version] == 1
    assert values["plackett_request_seconds_count", "/rank"] == 2
    assert values["plackett_request_seconds_bucket", "+Inf", "/rank"] == 2
    assert values["plackett_requests_in_flight",] == 1  # the one that asks
    assert values["plackett_requests_scoring",] == 0
    assert values["process_resident_memory_bytes",] > 1e6
    assert types["plackett_requests"] == "counter"
    assert types["plackett_request_seconds"] == "histogram"


def test_routes_in_metrics_are_not_made_up_by_clients(saved) -> None:
    with app_of({"m": saved("trees")}) as app:
        for i in range(50):
            ask(app, "GET", f"/models/{i}")
            ask(app, "GET", f"/{i}")
        (family,) = app.metrics.requests.collect()
    routes = {sample.labels["route"] for sample in family.samples}
    assert routes == {"/models/{model}", "unknown"}


def test_logs_tell_what_happened_but_not_what_was_sent(saved) -> None:
    with app_of({"m": saved("trees")}) as app:
        rank(app, {"documents": [[987.125] * 6], "ids": ["private"]}, headers={"x-request-id": "r1"})
        rank(app, {"documents": [{"personal": 1}]}, headers={"x-request-id": 'bad "id"'})
        ask(app, "GET", "/models/x\n{}?q=secret")
        first, second, third = logged(app)
        text = app.stream.getvalue()
    assert (first["id"], first["status"], first["documents"]) == ("r1", 200, 1)
    assert second["status"] == 422
    assert re.fullmatch(r"[0-9a-f]{16}", second["id"])
    assert third["status"] == 404
    for word in ("987.125", "private", "personal"):
        assert word not in text


def test_a_server_that_stops_is_not_ready_and_closes_connections(saved) -> None:
    with app_of({"m": saved("trees")}) as app:
        assert ask(app, "GET", "/ready").json["models"] == 1
        app.is_draining = True
        assert ask(app, "GET", "/ready").status == 503
        assert ask(app, "GET", "/health").headers["connection"] == "close"


def test_lifespan_of_other_servers_is_answered(saved) -> None:
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]
    sent = []

    async def run():
        async def receive():
            return messages.pop(0)

        async def send(message):
            sent.append(message["type"])

        with app_of({"m": saved("trees")}) as app:
            await app({"type": "lifespan"}, receive, send)

    asyncio.run(run())
    assert sent == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
