"""The files for Grafana and Prometheus ask for metrics and labels that there are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from riverrun.capture.status import CaptureStatus, TableStatus
from riverrun.log.captures import Captures
from riverrun.river import River
from riverrun.runtime.ledger import LedgerEntry
from riverrun.runtime.status import SourceStatus
from riverrun.serve.server import Background
from serve.conftest import CommittedFlow, order
from serve.telling_run import TellingRun

FOLDER = Path(__file__).parents[2] / "docs" / "monitoring"
OF_PROMETHEUS = {"up": {"job", "instance"}}


@pytest.fixture
def served(river: River, totals: CommittedFlow, serve: Callable[..., Background]) -> dict[str, set[str]]:
    """Every metric of a river in which there is something of everything, with its labels."""
    river.topic("orders").append(order())
    for _ in river.topic("orders").consumer("billing", timeout=0.1):
        break
    with river.topic("orders").queue("mails", attempts=1) as queue:
        message = queue.receive(5)
        assert message is not None
        message.nack("no such address")
    totals.commit(("ada", 1, 9.5, 1))
    captures = Captures(river._coordination)
    captured = CaptureStatus("shop", "", "streaming", None, "0/1", 0, 0.0, 1, {"t": TableStatus("shop.t")})
    captures.report("shop", captures.register("shop", ""), captured.plain())
    now = datetime.now(UTC)
    run = TellingRun(sources=(SourceStatus("stream-orders", "orders", now, 1.0),))
    url = serve(run).url
    httpx.get(f"{url}/healthz").raise_for_status()
    found = dict(OF_PROMETHEUS)
    for name, labels in re.findall(r"^(riverrun_\w+)(?:\{(.*)\})? ", httpx.get(f"{url}/metrics").text, re.MULTILINE):
        found.setdefault(name, set()).update(re.findall(r"(\w+)=", re.sub(r'"[^"]*"', "", labels)), {"instance"})
    return found


def expressions_of_the_dashboard() -> list[tuple[str, str]]:
    """Each with the text that shows its labels."""
    document = json.loads((FOLDER / "grafana-dashboard.json").read_text())
    shown = [(part["expr"], part["legendFormat"]) for panel in document["panels"] for part in panel["targets"]]
    variables = [one["definition"] for one in document["templating"]["list"] if "definition" in one]
    return [*shown, *((text, "") for text in variables)]


def expressions_of_the_rules() -> list[tuple[str, str]]:
    yaml: Any = pytest.importorskip("yaml")
    document = yaml.safe_load((FOLDER / "prometheus-rules.yml").read_text())
    rules = [rule for group in document["groups"] for rule in group["rules"]]
    assert all(rule["labels"]["severity"] in ("warning", "critical") for rule in rules)
    return [(rule["expr"], rule["annotations"]["summary"]) for rule in rules]


@pytest.mark.parametrize("expressions", [expressions_of_the_dashboard, expressions_of_the_rules])
def test_expressions_name_metrics_and_labels_that_exist(
    served: dict[str, set[str]], expressions: Callable[[], list[tuple[str, str]]]
) -> None:
    found = expressions()
    assert len(found) > 5
    for expression, shown in found:
        plain = re.sub(r'"[^"]*"', '""', expression)
        named = re.findall(r"\b(riverrun_\w+|up)\b", plain)
        assert named, expression
        assert set(named) <= served.keys(), expression
        chosen = " ".join(re.findall(r"\{([^}]*)\}", plain))
        labels = set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", chosen)) | set(re.findall(r"\$labels\.(\w+)", shown))
        labels |= set(re.findall(r"\{\{\s*(\w+)\s*\}\}", shown))
        labels |= {label for some in re.findall(r"by \(([^)]*)\)", plain) for label in some.split(", ")}
        assert labels <= set.union(*(served[name] for name in named)), expression


def test_panels_have_their_own_places() -> None:
    panels = json.loads((FOLDER / "grafana-dashboard.json").read_text())["panels"]
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels}
    assert len(places) == len({panel["id"] for panel in panels}) == len(panels)


def test_nodes_are_called_by_the_names_that_the_flow_gives_them(serve: Callable[..., Background]) -> None:
    named = LedgerEntry("window-1", "in", read=9, accepted=9, name="per minute")
    text = httpx.get(f"{serve(TellingRun(ledger=(named,))).url}/metrics").text
    assert 'riverrun_rows_total{flow="shop",input="in",kind="accepted",node="per minute"} 9.0' in text
    assert "window-1" not in text
