"""The OpenAPI description, and schemathesis asking whatever it allows and whatever it does not."""

from __future__ import annotations

import pytest

pytest.importorskip("starlette", reason="pip install 'plackett[serve]'")
pytest.importorskip("schemathesis")

import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode

from plackett.serving.server.app import OPERATIONS
from server_harness import TOKEN, app_of, ask
from serving_models import documents

ROUTES = [route for route in OPERATIONS if route.is_described]
# Not whether what the schema allows is accepted: documents must also fit the model.
CHECKS = [
    schemathesis.checks.not_a_server_error,
    schemathesis.checks.status_code_conformance,
    schemathesis.checks.content_type_conformance,
    schemathesis.checks.response_schema_conformance,
]
REJECTION = [schemathesis.checks.negative_data_rejection]
ASKED = [(route, GenerationMode.POSITIVE) for route in ROUTES]
ASKED += [
    (route, GenerationMode.NEGATIVE)  # where there is something that can be wrong
    for route in ROUTES
    if route.method == "POST" and route.action != "reload"
]
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
def app(saved):
    with app_of({"trees": saved("trees"), "linear": saved("linear")}, token=TOKEN) as created:
        yield created


@pytest.fixture(scope="module")
def described(app):
    return schemathesis.openapi.from_asgi("/openapi.json", app)


def test_every_route_is_described(app) -> None:
    actual = ask(app, "GET", "/openapi.json").json
    assert actual["openapi"].startswith("3.1")
    assert set(actual["paths"]) == {route.path for route in ROUTES}
    identities = [op["operationId"] for item in actual["paths"].values() for op in item.values()]
    assert len(set(identities)) == len(identities)
    assert actual["components"]["securitySchemes"]["token"]["scheme"] == "bearer"


@pytest.mark.parametrize(("route", "mode"), ASKED, ids=lambda element: getattr(element, "path", None) or element.value)
def test_no_request_makes_the_server_fail(described, route, mode) -> None:
    operation = described[route.path][route.method]

    @settings(
        max_examples=15 if route.action in ("rank", "explain") else 3,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        derandomize=True,
    )
    @given(operation.as_strategy(generation_mode=mode))
    def run(case):
        if mode is GenerationMode.POSITIVE and "model" in case.path_parameters:
            case.path_parameters["model"] = "linear"
        response = case.call(headers=HEADERS)
        assert response.status_code < 500
        case.validate_response(response, checks=CHECKS)
        if response.status_code != 413:  # a refusal that the check below does not know
            case.validate_response(response, checks=REJECTION)

    run()


def test_answers_fit_their_schemas(described) -> None:
    rows = documents(5).tolist()
    for path in ("/rank", "/explain"):
        for body in ({"documents": rows}, {"lists": [{"documents": rows, "ids": list("abcde")}]}):
            operation = described[path]["POST"]
            case = operation.Case(body=body, media_type="application/json", headers=HEADERS)
            case.call_and_validate(checks=[schemathesis.checks.response_schema_conformance])
