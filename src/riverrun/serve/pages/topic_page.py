"""One topic: its columns, its partitions, who reads it, its newest rows, and rows by key."""

from __future__ import annotations

from typing import Any

import pyarrow.compute as pc

from riverrun import ddl
from riverrun.errors import OutOfRange
from riverrun.log.json_rows import plain_rows
from riverrun.log.partitioner import partition_of
from riverrun.log.topic import Topic
from riverrun.serve.pages.history import History
from riverrun.serve.pages.markup import Html, join, tag
from riverrun.serve.pages.quantities import clock, number, parse, rate, size
from riverrun.serve.pages.readers import TopicReader, find_readers
from riverrun.serve.pages.shell import Asked, Drawn, empty, figure, figures, summary, table
from riverrun.serve.pages.spark_line import spark_line
from riverrun.serve.pages.table_cells import cell, heads, is_number
from riverrun.serve.pages.topics_page import age, describe_topic, limit

_TAIL = 25
_FOUND = 25
_LOOKED = 200_000  # rows of a partition that are looked through for a key
_ORDER = [("_received", "descending"), ("_partition", "ascending"), ("_offset", "descending")]


def draw(history: History, asked: Asked) -> Drawn:
    topic = history.backend.topic(asked.name)
    description = describe_topic(history, topic.name)
    regions = {
        "summary": summary(history, asked),
        "figures": _numbers(history, topic.name, description),
        "find": _form(topic, asked),
    }
    if asked.get("key") and not asked.is_live:
        regions["found"] = _find(topic, asked.get("key"))
    regions["tail"] = _tail(topic)
    regions["readers"] = _readers(find_readers(history).get(topic.name, []))
    regions["partitions"] = _partitions(description)
    regions["schema"] = _schema(topic, description)
    return Drawn(topic.name, regions, still=("found",))


def _numbers(history: History, name: str, description: dict[str, Any]) -> Html:
    last = parse(description["received"])
    return join(
        tag("h2", tag("span", "Topic ", class_="quiet"), name),
        figures(
            figure("Rate", rate(history.topic_rate(name, 5)), spark_line(history.topic_rates(name), name)),
            *_sizes(description),
            figure("Oldest row", age(description), f"kept {limit(description)}"),
            figure("Newest row", clock(last) if last else tag("span", "none", class_="unknown"), "received, UTC"),
        ),
    )


def _sizes(description: dict[str, Any]) -> list[Html]:
    """How much there is; Kafka tells offsets only, and what its messages are."""
    if description["bytes"] is None:
        return [figure("Offsets", number(description["offsets"]), f"on Kafka, as {description['format']}")]
    return [
        figure("Rows kept", number(description["offsets"]), join("in ", number(description["segments"], "segments"))),
        figure("Size", size(description["bytes"]), join(number(description["appends"]), " appends so far")),
    ]


def _form(topic: Topic, asked: Asked) -> Html:
    if not topic.spec.key:
        return tag("p", "This topic has no key, so rows cannot be found by one.", class_="note")
    named = ", ".join(topic.spec.key)
    hint = "" if len(topic.spec.key) == 1 else ' as a JSON array, such as ["ada",7]'
    return tag(
        "form",
        tag(
            "label",
            f"Find rows by key ({named}){hint}",
            tag("input", name="key", value=asked.get("key"), type="search"),
        ),
        tag("button", "Find", type="submit"),
        method="get",
        action=asked.path,
        role="search",
    )


def _find(topic: Topic, key: str) -> Html:
    """The newest rows with a key. A key is always in the same partition, so only that one is read."""
    partition = partition_of(key.encode(), topic.partitions)
    end = topic.ends()[partition]
    start = max(topic.begins()[partition], end - _LOOKED)
    rows: list[dict[str, Any]] = []
    for batch in topic.batches({partition: start}, {partition: end}):
        same = batch.filter(pc.equal(batch.column("_key"), key))
        rows += plain_rows(same.slice(max(same.num_rows - _FOUND, 0)))
        del rows[:-_FOUND]
    looked = f"the newest {end - start} rows of partition {partition}"
    if not rows:
        return join(tag("h2", "Found"), empty(f"No row with the key {key!r} in {looked}"))
    return join(tag("h2", "Found"), _rows(f"The newest {len(rows)} with the key {key!r}, in {looked}", rows[::-1]))


def _tail(topic: Topic) -> Html:
    end, first = topic.ends(), topic.begins()
    start = {p: max(first[p], offset - _TAIL) for p, offset in end.items()}
    button = tag("button", "Pause", type="button", data_pause=True, data_scripted=True, aria_pressed="false")
    head = tag("div", tag("h2", "Newest rows"), button, class_="row")
    try:
        rows = topic.read({topic.name: start}, {topic.name: dict(end)}).sort_by(_ORDER).slice(0, _TAIL)
    except OutOfRange:
        return join(head, empty("Rows were removed while they were being read; the next look will do"))
    if not rows.num_rows:
        return join(head, empty("No rows yet", f"riverrun topic append {topic.name} ROWS.ndjson"))
    return join(head, _rows(f"The newest {rows.num_rows}, newest first", plain_rows(rows.combine_chunks())))


def _rows(caption: str, rows: list[dict[str, Any]]) -> Html:
    names = [name for name in rows[0] if not name.startswith("_")]
    numbers = [name for name in names if all(row[name] is None or is_number(row[name]) for row in rows)]
    shown = []
    for row in rows:
        place = tag("td", f"{row['_partition']}:{row['_offset']}", class_="quiet")
        received = tag("td", clock(parse(row["_received"])))
        if row.get("_deleted"):
            kept = tag("td", "deleted: ", tag("b", row.get("_key") or ""), colspan=len(names))
            shown.append(tag("tr", place, received, kept, id=_id(row)))
        else:
            shown.append(tag("tr", place, received, *(cell(row[name]) for name in names), id=_id(row)))
    return table(caption, heads(["Place", "Received", *names], numbers), shown)


def _id(row: dict[str, Any]) -> str:
    return f"at-{row['_partition']}-{row['_offset']}"


def _readers(reading: list[TopicReader]) -> Html:
    head = tag("h2", "Readers")
    if not reading:
        return join(head, empty("No flow and no group reads this topic"))
    rows = [
        tag(
            "tr",
            tag("th", one.name, scope="row"),
            tag("td", one.kind),
            tag("td", "–" if one.members is None else number(one.members), class_="n"),
            tag("td", one.lag()),
            id=f"reader-{one.kind}-{one.name}",
        )
        for one in reading
    ]
    return join(
        head, table("Who reads, and with what lag", heads(["Reader", "Kind", "Members", "Lag"], ["Members"]), rows)
    )


def _partitions(description: dict[str, Any]) -> Html:
    rows = [
        tag(
            "tr",
            tag("th", p, scope="row"),
            tag("td", number(part["latest"] - part["earliest"]), class_="n"),
            tag("td", part["earliest"], class_="n"),
            tag("td", part["latest"], class_="n"),
        )
        for p, part in description["partitions"].items()
    ]
    names = ["Partition", "Rows kept", "First offset", "Next offset"]
    return join(tag("h2", "Partitions"), table("Rows by partition", heads(names, names[1:]), rows))


def _schema(topic: Topic, description: dict[str, Any]) -> Html:
    uses = dict.fromkeys(topic.spec.key, "key")
    for part in ("time", "producers"):
        column = description[part]
        if column:
            uses[column] = ", ".join(filter(None, (uses.get(column), {"time": "event time"}.get(part, part))))
    rows = [
        tag(
            "tr",
            tag("th", column.name, scope="row"),
            tag("td", tag("code", str(column.type))),
            tag("td", uses.get(column.name, "")),
        )
        for column in ddl.parse(description["schema"])
    ]
    return join(
        tag("h2", "Columns"),
        table(f"Schema, version {description['schema_version']}", heads(["Column", "Type", "Used as"]), rows),
    )
