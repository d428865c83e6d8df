"""The nodes of one flow, each with its id, and the topics it reads and writes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import TypeVar

from riverrun.errors import Invalid
from riverrun.flow.operators.node import Node, canonical
from riverrun.flow.place import Place
from riverrun.flow.schema import Schema

Kind = TypeVar("Kind", bound=Node)

_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class InputTopic:
    """What a flow says about a topic it reads; None and () where it says nothing."""

    name: str
    schema: str
    key: tuple[str, ...]
    time: str | None
    producers: str | None
    place: Place
    described: object = None  # the rr.TopicSpec that said it, which also says how the topic is kept
    enveloped: bool = False  # its rows are messages of another tool, and what the flow reads is inside


@dataclass(frozen=True, slots=True)
class WrittenTopic:
    """A topic the flow writes; late rows of several nodes may share one."""

    name: str
    schema: Schema
    late: bool
    place: Place


class Graph:
    """Nodes in the order they were declared, so inputs come before what reads them. Equal nodes are one node."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.nodes: dict[str, Node] = {}
        self.reads: dict[str, InputTopic] = {}
        self.writes: dict[str, WrittenTopic] = {}
        self.names: dict[str, str] = {}  # what people call nodes, by id
        self.untimed: set[str] = set()  # sources of which nobody said what their time is

    def add(self, node: Kind) -> Kind:
        """The node with its id, or the equal one that is there already.

        The id names which computation it is; nodes that differ only in how they do it are numbered as they come.
        """
        for number in count(1):
            id = node.base_id if number == 1 else f"{node.base_id}~{number}"
            known = self.nodes.get(id)
            if known is None:
                added = replace(node, id=id)
                self.nodes[id] = added
                return added
            if isinstance(known, type(node)) and _same(known, node):
                return known
        raise AssertionError

    def call(self, node: Node, name: str) -> None:
        """Gives a node a name that no other one has."""
        if not isinstance(name, str) or not name.strip() or not name.isprintable() or len(name) > _LONGEST_NAME:
            raise Invalid(f"not a name for a node: {name!r}", hint=f"Use 1 to {_LONGEST_NAME} characters")
        for id, known in self.names.items():
            if known == name and id != node.id:
                raise Invalid(f"the node at {self.nodes[id].place} is called {name!r} already", hint="Use another name")
        if self.names.setdefault(node.id, name) != name:
            raise Invalid(f"the node at {node.place} is called {self.names[node.id]!r} already")

    def read(self, topic: InputTopic) -> None:
        """Notes that the flow reads a topic; what it says must agree with what it said before."""
        self._refuse_loop(topic.name, self.writes.get(topic.name))
        known = self.reads.get(topic.name)
        if not known:
            self.reads[topic.name] = topic
            return
        if Schema.parse(known.schema) != Schema.parse(topic.schema):
            raise Invalid(
                f"topic {topic.name!r} has another schema at {known.place}: {known.schema}",
                hint="Write it once, as rr.TopicSpec, or leave it out the second time",
            )
        for what in ("key", "time", "producers"):
            before, now = getattr(known, what), getattr(topic, what)
            if before and now and before != now:
                raise Invalid(f"topic {topic.name!r} has another {what} at {known.place}: {before!r}, not {now!r}")
        self.reads[topic.name] = replace(
            known,
            key=known.key or topic.key,
            time=known.time or topic.time,
            producers=known.producers or topic.producers,
            described=known.described or topic.described,
            enveloped=known.enveloped or topic.enveloped,
        )

    def write(self, topic: WrittenTopic) -> None:
        """Notes that the flow writes a topic."""
        known = self.writes.get(topic.name)
        self._refuse_loop(topic.name, topic if topic.name in self.reads else None)
        if known and not (known.late and topic.late):
            raise Invalid(f"topic {topic.name!r} is written at {known.place} already", hint="Give it another name")
        if known and known.schema != topic.schema:
            raise Invalid(
                f"topic {topic.name!r} gets late rows with other columns at {known.place}: {known.schema}",
                hint="Give each its own topic",
            )
        self.writes.setdefault(topic.name, topic)

    def _refuse_loop(self, name: str, written: WrittenTopic | None) -> None:
        if written:
            raise Invalid(
                f"flow {self.name!r} would read topic {name!r} that it writes itself",
                hint="Use the node itself, or read the topic in another flow",
            )


def _same(known: Node, node: Node) -> bool:
    if len(known.inputs) != len(node.inputs) or any(a is not b for a, b in zip(known.inputs, node.inputs, strict=True)):
        return False
    if any(one is not other for one, other in zip(known.functions, node.functions, strict=True)):
        return False
    return canonical(tuple(known.settings(frozenset(known.schema)).items())) == canonical(
        tuple(node.settings(frozenset(node.schema)).items())
    )
