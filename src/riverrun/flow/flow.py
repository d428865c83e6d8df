"""A flow: which topics are read, what is computed, where results go. It is data and runs nothing.

flow = Flow("shop")
orders = flow.stream("orders", "user string, amount double, at timestamp", time="at")
flow.view("revenue", orders.group("user").agg(total=sum("amount")))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from riverrun.columns import check_name
from riverrun.durations import Duration
from riverrun.errors import Invalid
from riverrun.flow import ends, names
from riverrun.flow.fingerprint import fingerprints, needed, view_fingerprints
from riverrun.flow.graph import Graph, InputTopic, WrittenTopic
from riverrun.flow.names import Names
from riverrun.flow.nodes import (
    AlertEnd,
    ClockNode,
    End,
    Lookup,
    Node,
    Source,
    StreamSource,
    TableSource,
    TopicEnd,
    ViewEnd,
)
from riverrun.flow.place import caller, declaration
from riverrun.flow.relation import Relation
from riverrun.flow.render import document, mermaid
from riverrun.flow.source import TopicLike, declared, source
from riverrun.flow.stream import Stream
from riverrun.flow.table import Table


class Flow:
    """A named flow. Declare sources, derive from them, and name the ends."""

    def __init__(self, name: str) -> None:
        self.name = _flow_name(name)
        self.graph = Graph(self.name)
        self.views: dict[str, ViewEnd] = {}
        self.derived: dict[str, TopicEnd] = {}
        self.alerts: dict[str, AlertEnd] = {}

    @declaration
    def stream(
        self,
        topic: str | TopicLike,
        schema: str | None = None,
        *,
        time: str | None = None,
        key: Names | None = None,
        lateness: Duration = 0,
        producers: str | None = None,
        idle: Duration | None = None,
        max_skew: Duration | None = None,
    ) -> Stream:
        """The rows of a topic. `time` is the event time's column, by default the time a row was received.

        `time="_time"` is the topic's own event time: of a topic that a flow wrote, that of the flow's rows.
        """
        said = declared(topic, schema, time, key, producers)
        options = source(self.graph, said, lateness, idle, max_skew)
        return Stream(self.graph, self.graph.add(StreamSource(place=caller(), **options)))

    @declaration
    def table(
        self,
        topic: str | TopicLike,
        schema: str | None = None,
        *,
        key: Names | None = None,
        time: str | None = None,
        lateness: Duration = 0,
        idle: Duration | None = None,
    ) -> Table:
        """The last row per key of a changelog topic, in log order; tombstones delete."""
        options = source(self.graph, declared(topic, schema, time, key, None), lateness, idle, None, keyed=True)
        return Table(self.graph, self.graph.add(TableSource(place=caller(), **options)))

    @declaration
    def view(
        self,
        name: str,
        node: Relation,
        key: Names | None = None,
        history: Duration | None = None,
        to: str | None = None,
    ) -> ViewEnd:
        """A queryable table of the results. Of a stream without `key` every row stays; with one, the newest."""
        end = ends.view(name, ends.one_per_key(self.graph, self._result("view", node), key), key, history, to)
        return ends.added(self.views, end)

    @declaration
    def topic(self, name: str, node: Relation, key: Names | None = None) -> TopicEnd:
        """A derived topic. A table, or a stream that corrects its results, needs a `key`."""
        end = ends.topic(name, ends.one_per_key(self.graph, self._result("topic", node), key), key)
        self.graph.write(WrittenTopic(name, end.node.schema, False, end.place))
        return ends.added(self.derived, end)

    @declaration
    def alert(
        self,
        name: str,
        node: Relation,
        to: str | Sequence[str],
        message: str | None = None,
        every: Duration = "1 minute",
    ) -> AlertEnd:
        """A message for each row, to addresses such as mailto://… or json://…, at most one `every` so often."""
        end = ends.alert(name, self._result("alert", node), to, message, every)
        return ends.added(self.alerts, end)

    @property
    def ends(self) -> list[End]:
        """All ends: views, then topics, then alerts."""
        return [*self.views.values(), *self.derived.values(), *self.alerts.values()]

    @property
    def declared(self) -> list[Node]:
        """Every node, also those that lead to no end; inputs come first."""
        return list(self.graph.nodes.values())

    @property
    def nodes(self) -> list[Node]:
        """The nodes that the ends are computed from; inputs come first."""
        used: set[str] = set()
        waiting = [end.node for end in self.ends]
        while waiting:
            node = waiting.pop()
            if node.id not in used:
                used.add(node.id)
                waiting.extend(node.inputs)
        return [node for node in self.declared if node.id in used]

    def topics(self) -> dict[str, InputTopic]:
        """The topics the flow declares, and what it says about each."""
        return dict(self.graph.reads)

    @property
    def inputs(self) -> list[str]:
        """The topics that its ends are computed from, in order."""
        return sorted({node.topic for node in self.nodes if isinstance(node, Source)})

    def depth(self, node: Node | Relation) -> int:
        """How many stateful nodes the longest way to this one has, itself included."""
        found = node.node if isinstance(node, Relation) else node
        return max((self.depth(below) for below in found.inputs), default=0) + found.stateful

    def lags(self, node: Node | Relation) -> dict[str, int]:
        """For each source (or clock) below, how far the node's watermark stays behind that one's, in microseconds.

        The node's watermark is the smallest of (source's watermark − lag).
        """
        found = node.node if isinstance(node, Relation) else node
        if isinstance(found, Source | ClockNode):
            return {found.id: 0}
        worst: dict[str, int] = {}
        # A table that is looked up does not hold the stream's time back: results have the time of the stream's rows.
        for below in found.inputs[:1] if isinstance(found, Lookup) else found.inputs:
            for root, lag in self.lags(below).items():
                worst[root] = max(worst.get(root, 0), lag + below.delay)
        return worst

    def holds(self, source: Source) -> list[int]:
        """For each way from a source to an end on which time alone changes something: how long after a row, at most."""
        found: list[int] = []

        def follow(node: Node, held: int) -> None:
            if node is source:
                found.extend([held] if held else [])
            for below in node.inputs:
                follow(below, held + node.hold + (below.delay if held or node.hold else 0))

        for end in self.ends:
            follow(end.node, 0)
        return found

    def needed(self) -> dict[str, tuple[str, ...]]:
        """For each node, by id, the columns that its readers need of it, in its order; hidden ones last."""
        return needed(self.nodes, self.ends)

    def fingerprint(self) -> dict[str, str]:
        """For each stateful node, by id, a hash that changes if and only if it or what is below computes otherwise."""
        return fingerprints(self.nodes)

    def view_fingerprint(self) -> dict[str, str]:
        """For each view, by id, a hash that changes if and only if it takes other rows or columns from the stateful
        nodes and topics behind it, or has another key."""
        return view_fingerprints(list(self.views.values()))

    def to_json(self) -> dict[str, Any]:
        """The flow as a JSON document: nodes, edges, ends."""
        return document(self.name, self.nodes, self.ends)

    @declaration
    def render(self, form: str = "mermaid") -> Any:
        """A picture as Mermaid text, or with "json" the same as data."""
        names.choice("form", form, ("mermaid", "json"))
        return self.to_json() if form == "json" else mermaid(self.nodes, self.ends)

    def __repr__(self) -> str:
        return f"<flow {self.name}: {len(self.nodes)} nodes, {len(self.ends)} ends>"

    def _result(self, what: str, node: object) -> Node:
        if not isinstance(node, Relation):
            hint = "Finish it with .agg(…)" if hasattr(node, "agg") else "Give a stream or a table of this flow"
            raise Invalid(f"{what}: not a stream or a table: {node!r}", hint=hint)
        if node.graph is not self.graph:
            raise Invalid(f"{what}: the node belongs to flow {node.graph.name!r}, not to {self.name!r}")
        return node.node


@declaration
def _flow_name(name: str) -> str:
    return check_name(name, "flow")
