"""A flow: which topics are read, what is computed, where results go. It is data and runs nothing.

flow = Flow("shop")
orders = flow.stream("orders", "user string, amount double, at timestamp", time="at")
flow.view("revenue", orders.group("user").agg(total=sum("amount")))
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from riverrun.calls import Misplaced, public_names
from riverrun.columns import check_name
from riverrun.durations import Duration
from riverrun.envelopes.envelope import MessageForm
from riverrun.errors import Invalid, did_you_mean
from riverrun.flow import ends, names
from riverrun.flow.analysis import below, sources
from riverrun.flow.graph import Graph, InputTopic, WrittenTopic
from riverrun.flow.names import Names
from riverrun.flow.operators.ends import AlertEnd, End, TopicEnd, ViewEnd
from riverrun.flow.operators.node import Node
from riverrun.flow.operators.source import StreamSource
from riverrun.flow.operators.table import TableSource
from riverrun.flow.place import caller, declaration
from riverrun.flow.relation import Relation
from riverrun.flow.render import document, mermaid
from riverrun.flow.source import UNSAID, TopicLike, Unsaid, declared, enveloped, source
from riverrun.flow.stream import Stream
from riverrun.flow.table import Table
from riverrun.habits import FLOW_METHODS


class Flow:
    """A named flow. Declare sources, derive from them, and name the ends."""

    @declaration
    def __init__(self, name: str) -> None:
        self.name = check_name(name, "flow")
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
        idle: Duration | Unsaid | None = UNSAID,
        max_skew: Duration | None = None,
    ) -> Stream:
        """The rows of a topic. `time` is the event time's column, by default the time a row was received.

        `time="_time"` is the topic's own event time: of a topic that a flow wrote, that of the flow's rows. Who is silent
        for `idle` stops holding time back: a partition after a minute unless told otherwise, a producer never.
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
        idle: Duration | Unsaid | None = UNSAID,
        form: str | None = None,
        times: str | None = None,
        decimals: str | None = None,
        of: str | None = None,
    ) -> Table:
        """The last row per key of a changelog topic, in log order; tombstones delete.

        `form="debezium"` and `form="maxwell"` read the table inside the messages of these tools. A row's time is then that
        of the change in the database. `times` (ms, us, ns) and `decimals` (precise, string) say how Debezium writes them,
        where its messages do not; `of="database.table"` is the table, of a topic of Maxwell's with several.
        """
        inside = _form(form, times, decimals, of)
        said = enveloped(topic, schema, time, key, inside) if inside else declared(topic, schema, time, key, None)
        made = self.graph.add(TableSource(place=caller(), **source(self.graph, said, lateness, idle, None, keyed=True)))
        if said.time is None:
            self.graph.untimed.add(made.id)
        return Table(self.graph, made)

    @declaration
    def view(
        self,
        name: str,
        node: Relation,
        key: Names | None = None,
        history: Duration | None = None,
        index: ends.Indexes | None = None,
        to: str | None = None,
        partition_by: Names | None = None,
    ) -> ViewEnd:
        """A queryable table of the results. Of a stream without `key` every row stays; with one, the newest.

        Rows are found fast by their key, and by the columns in `index`: `["merchant", ["country", "day"]]`.

        `to` puts the rows into another store than the river's own: "redis://…", "search:", "delta:PATH" (which may be cut
        into directories by the columns of `partition_by`), "postgresql://…", "sqlite:PATH".
        """
        rows = ends.newest(self.graph, self._result("view", node), key)
        end = ends.view(name, rows, key, history, index, to, partition_by)
        return ends.added(self.views, end)

    @declaration
    def topic(self, name: str, node: Relation, key: Names | None = None) -> TopicEnd:
        """A derived topic. A table, or a stream that corrects its results, needs a `key`."""
        end = ends.topic(self.graph, name, self._result("topic", node), key)
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
    def nodes(self) -> list[Node]:
        """The nodes that the ends are computed from; inputs come first."""
        used = {node.id for end in self.ends for node in below(end.node)}
        return [node for node in self.graph.nodes.values() if node.id in used]

    def topics(self) -> dict[str, InputTopic]:
        """The topics the flow declares, and what it says about each."""
        return dict(self.graph.reads)

    @property
    def inputs(self) -> list[str]:
        """The topics that its ends are computed from, in order."""
        return sorted({source.topic for source in sources(self.nodes)})

    def to_json(self) -> dict[str, Any]:
        """The flow as a JSON document: nodes, edges, ends."""
        return document(self.name, self.nodes, self.ends, self.graph.names)

    @declaration
    def render(self, form: str = "mermaid") -> Any:
        """A picture as Mermaid text, or with "json" the same as data."""
        names.choice("form", form, ("mermaid", "json"))
        return self.to_json() if form == "json" else mermaid(self.nodes, self.ends, self.graph.names)

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(f"a flow has no {name!r}")
        hint = FLOW_METHODS.get(name) or did_you_mean(name, public_names(type(self)))
        raise Misplaced(f"{caller()}: a flow has no {name!r}", hint=hint)

    def __repr__(self) -> str:
        return f"<flow {self.name}: {len(self.nodes)} nodes, {len(self.ends)} ends>"

    def _result(self, what: str, node: object) -> Node:
        if not isinstance(node, Relation):
            hint = "Finish it with .agg(…)" if hasattr(node, "agg") else "Give a stream or a table of this flow"
            raise Invalid(f"{what}: not a stream or a table: {node!r}", hint=hint)
        if node.graph is not self.graph:
            raise Invalid(f"{what}: the node belongs to flow {node.graph.name!r}, not to {self.name!r}")
        return node.node


def _form(form: str | None, times: str | None, decimals: str | None, of: str | None) -> MessageForm | None:
    """The form of messages, None where rows are rows."""
    if form is not None:
        return MessageForm(form, times, decimals, of)
    said = [name for name, value in (("times", times), ("decimals", decimals), ("of", of)) if value is not None]
    if said:
        raise Invalid(f"{said[0]} is for a table inside messages", hint='Say which: form="debezium" or form="maxwell"')
    return None
