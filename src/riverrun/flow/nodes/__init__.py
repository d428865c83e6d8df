"""The nodes of a flow, one class for each thing it can compute, and its ends."""

from riverrun.flow.nodes.ends import AlertEnd, End, TopicEnd, ViewEnd
from riverrun.flow.nodes.joins import AsOf, Join, JoinStreams, JoinTables, Lookup, Output, Pair
from riverrun.flow.nodes.keyed import Changes, Dedupe, Group, Latest, Newest, Top
from riverrun.flow.nodes.node import Node, Row, unseen
from riverrun.flow.nodes.rows import Drop, Select, Transform, Union, Where, WithColumns
from riverrun.flow.nodes.sources import ClockNode, Source, StreamSource, TableSource
from riverrun.flow.nodes.windowed import END, START, Versus, Window

__all__ = [
    "END",
    "START",
    "AlertEnd",
    "AsOf",
    "Changes",
    "ClockNode",
    "Dedupe",
    "Drop",
    "End",
    "Group",
    "Join",
    "JoinStreams",
    "JoinTables",
    "Latest",
    "Lookup",
    "Newest",
    "Node",
    "Output",
    "Pair",
    "Row",
    "Select",
    "Source",
    "StreamSource",
    "TableSource",
    "Top",
    "TopicEnd",
    "Transform",
    "Union",
    "Versus",
    "ViewEnd",
    "Where",
    "Window",
    "WithColumns",
    "unseen",
]
