"""The OpenAPI document, and the server held to it by schemathesis."""

from __future__ import annotations

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from serve.conftest import CommittedFlow

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
STREAMS = {"/topics/{topic}/tail", "/views/{view}/changes"}


def test_the_document_says_what_there_is(http: httpx.Client) -> None:
    document = http.get("/openapi.json").json()
    assert set(document["paths"]) == {
        "/topics",
        "/topics/{topic}",
        "/dead-letters",
        "/dead-letters/{topic}",
        "/views",
        "/views/{view}",
        "/views/{view}/{key}",
        "/flows",
        "/metrics",
        "/healthz",
        "/readyz",
        *STREAMS,
    }
    for operations in document["paths"].values():
        for operation in operations.values():
            assert operation["description"]
            assert "422" not in operation["responses"]


def test_the_server_keeps_to_the_document(http: httpx.Client, totals: CommittedFlow) -> None:
    totals.commit(("ada", 1, 9.5, 1))
    schema = schemathesis.openapi.from_url(f"{str(http.base_url).rstrip(chr(47))}/openapi.json")
    tried = 0
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path in STREAMS:
            continue

        @given(case=operation.as_strategy())
        @settings(
            max_examples=15,
            deadline=None,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def holds(case: schemathesis.Case) -> None:
            if "topic" in case.path_parameters and len(case.path_parameters["topic"]) % 2:
                case.path_parameters["topic"] = "orders"
            if "view" in case.path_parameters and len(case.path_parameters["view"]) % 2:
                case.path_parameters["view"] = "totals"
            if case.query and "timeout" in case.query:
                case.query["timeout"] = "10ms"
            case.call_and_validate(checks=CHECKS, timeout=10)

        holds()
        tried += 1
    assert tried == 12


@pytest.mark.parametrize("path", sorted(STREAMS))
def test_streams_are_described(http: httpx.Client, path: str) -> None:
    responses = http.get("/openapi.json").json()["paths"][path]["get"]["responses"]
    assert list(responses["200"]["content"]) == ["text/event-stream"]
