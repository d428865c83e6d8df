"""Streams: rows that happened. They stay, unless a policy says that results are corrected."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from riverrun.durations import Duration
from riverrun.errors import Invalid
from riverrun.flow import names
from riverrun.flow.graph import WrittenTopic
from riverrun.flow.join import Joined, joined, refuse_partial_key, side_by_side
from riverrun.flow.matching import checked_after, defined, refuse_unmatched, shown
from riverrun.flow.names import Names
from riverrun.flow.operators.apply import Apply, PerKey
from riverrun.flow.operators.as_of import AsOf
from riverrun.flow.operators.clock import ClockCorrection
from riverrun.flow.operators.dedupe import Dedupe
from riverrun.flow.operators.join_streams import JoinStreams
from riverrun.flow.operators.latest import Latest
from riverrun.flow.operators.lookup import Lookup
from riverrun.flow.operators.match import ALL_ROWS, ONE, Match
from riverrun.flow.operators.node import Node, Row
from riverrun.flow.operators.ordered import Ordered
from riverrun.flow.operators.percolate import Percolate
from riverrun.flow.operators.rows import Select, Where
from riverrun.flow.operators.rule_match import MADE, RULE_ID, RuleMatch, check_rules
from riverrun.flow.operators.sample import Sample
from riverrun.flow.operators.source import Source
from riverrun.flow.percolation import pair_condition, searched, stored_query
from riverrun.flow.place import caller, declaration
from riverrun.flow.relation import Relation, known_columns, missing
from riverrun.flow.schema import STRING, TIMESTAMP, Schema
from riverrun.flow.spans import interval, positive, span
from riverrun.flow.table import Table
from riverrun.flow.windowed import Windowed
from riverrun.flow.windows import (
    Correct,
    DropLate,
    Hopping,
    Late,
    Session,
    Side,
    Sliding,
    Tumbling,
    WindowKind,
    late_policy,
)
from riverrun.patterns.language import parse
from riverrun.patterns.tables import LARGEST_LIMIT, LIMIT


class Stream(Relation):
    """A stream of a flow."""

    @declaration
    def clock(self, occurred: str, sent: str, by: Names) -> Stream:
        """The stream with its event time corrected by each device's clock: occurred + (received − sent).

        `by` tells devices apart: `run.status()["clocks"]` has those whose clocks are furthest off, in seconds.
        """
        node = self.node
        while isinstance(node, Where):
            node = node.inputs[0]
        if not isinstance(node, Source):
            raise Invalid(
                "clock comes first: it says what a source's event time is", hint="Use it right after flow.stream"
            )
        found = [self._timestamp(what, name) for what, name in (("occurred", occurred), ("sent", sent))]
        devices = names.some("by", by, self.schema)
        return Stream(self.graph, self._add(ClockCorrection, occurred=found[0], sent=found[1], by=devices))

    @declaration
    def dedupe(self, on: Names, within: Duration = "1 hour") -> Stream:
        """The stream without repeats: of rows equal in `on` at most `within` apart, the first in log order."""
        self._refuse_corrections("dedupe")
        repeated = names.some("on", on, self.schema)
        node = self._in_order(repeated)
        return Stream(self.graph, self._add(Dedupe, node, on=repeated, within=positive("within", within)))

    @declaration
    def window(
        self, window: WindowKind, by: Names | None = None, late: Late | None = None, emit: str = "final"
    ) -> Windowed:
        """Windows of event time, to be followed by `.agg(…)`."""
        if not isinstance(window, Tumbling | Hopping | Sliding | Session):
            raise Invalid(f"not a window: {window!r}", hint='Write rr.tumbling("1 minute"), rr.session("5 minutes"), …')
        policy = late_policy(late)
        names.choice("emit", emit, ("final", "update"))
        groups = names.columns("by", by, self.schema)
        if isinstance(window, Sliding):
            kept = names.columns("keep", window.keep, self.schema)
            window = replace(window, keep=tuple(name for name in kept if name not in groups))
        return Windowed(self, window, groups, policy, emit)

    @declaration
    def sample(self, fraction: float, by: Names) -> Stream:
        """All rows of a share of the keys: the same keys every time, chosen by their hash."""
        if isinstance(fraction, bool) or not isinstance(fraction, int | float) or not 0 <= fraction <= 1:
            raise Invalid(f"sample: a share lies between 0 and 1, not {fraction!r}")
        keys = names.some("by", by, self.schema)
        return Stream(self.graph, self._add(Sample, fraction=float(fraction), by=keys))

    @declaration
    def match(
        self,
        pattern: str,
        define: Mapping[str, str] | None = None,
        by: Names | None = None,
        within: Duration | None = None,
        measures: Mapping[str, str] | None = None,
        after: str = "skip past last",
        rows: str = "one",
        on_timeout: bool = False,
        late: Late | None = None,
        open_rows: int = LIMIT,
    ) -> Stream:
        """Matches of a pattern over the rows of each `by`, in the order of event time.

        `pattern` is a regular expression over names of variables ("a -> b", "start down+ up+"), `define` says when a row is
        one, `measures` what is told of a match. docs/patterns.md has the language. An attempt that takes more than
        `open_rows` rows is given up, and counted in the ledger.
        """
        known_columns("match", self.node)
        names.choice("rows", rows, (ONE, ALL_ROWS))
        tree = parse(pattern)
        policy = late_policy(late)
        if isinstance(open_rows, bool) or not isinstance(open_rows, int) or not 1 <= open_rows <= LARGEST_LIMIT:
            raise Invalid(
                f"match: open_rows cannot be {open_rows!r}", hint=f"Give a whole number from 1 to {LARGEST_LIMIT}"
            )
        if measures is not None and not isinstance(measures, Mapping):
            raise Invalid(f"match: measures is a dict of expressions, not {measures!r}")
        fields: dict[str, Any] = {
            "pattern": " ".join(pattern.lower().split()),
            "define": defined(define, tree),
            "by": names.columns("by", by, self.schema),
            "within": None if within is None else span("within", within),
            "measures": tuple((measures or {}).items()),
            "after": checked_after(after),
            "rows": rows,
            "on_timeout": bool(on_timeout),
            "late": policy,
            "limit": open_rows,
        }
        refuse_unmatched(Match(inputs=(self.node,), place=caller(), **fields))
        if isinstance(policy, Side):
            self._write_late(policy)
        node = self._add(Match, **fields)
        assert isinstance(node, Match)
        return Stream(self.graph, self._add(Select, node, items=shown(node)))

    @declaration
    def apply(self, step: Callable[..., Any] | PerKey, by: Names, state: str, output: str) -> Stream:
        """A stateful operator of your own: `step(state, rows, clock) -> (state, output)` over Polars frames of all keys
        that have new rows. `state` and `output` are the columns (DDL) of what is remembered of a key, and of what is
        handed on, which has the columns `by`. A remembered row with `_wake` is handed in again at that time.
        """
        if not (callable(step) or isinstance(step, PerKey)):
            raise Invalid(f"apply takes a function, not {step!r}", hint="step(state, rows, clock) -> (state, output)")
        self._refuse_corrections("apply")
        known_columns("apply", self.node)
        keys = names.some("by", by, self.schema)
        fields = {"state": names.declared("state", state), "output": names.declared("output", output)}
        for name in keys:
            if name in fields["state"]:
                raise Invalid(
                    f"apply: {name!r} is part of the key, and remembered anyway", hint="Leave it out of state"
                )
            if fields["output"].get(name) != self.schema[name]:
                raise Invalid(f"apply: output needs the column {name!r} of the key, as {self.schema[name]}")
        return Stream(self.graph, self._add(Apply, self._in_order(keys), function=step, by=keys, **fields))

    @declaration
    def latest(self, key: Names) -> Table:
        """The last row per key, by event time."""
        self._refuse_corrections("latest")
        return self._table(Latest, by=names.some("key", key, self.schema))

    @declaration
    def join(
        self,
        other: Stream | Table,
        on: Names | Mapping[str, str],
        within: Duration | tuple[Duration, Duration] | None = None,
        how: str = "inner",
        suffix: str = "_right",
        rename: Mapping[str, str] | None = None,
        late: Late | tuple[Late, Late] | None = None,
    ) -> Stream:
        """With a stream: pairs whose times lie `within`. With a table: its newest version when a row is processed.

        `rename` has new names for columns of the other side; else those that are on both sides get the `suffix`. `late`
        says what becomes of rows behind the watermark, of both streams or (left, right) of each.
        """
        self._check_other("join", other)
        for node in (self.node, other.node):
            known_columns("join", node)
        if isinstance(other, Table):
            if within is not None or late is not None:
                what = "within" if within is not None else "late: its rows are never late"
                hint = "as_of finds the version valid at the row's time"
                raise Invalid(f"a join with a table takes no {what}", hint=hint)
            return self._lookup(other, on, how, joined(self.schema, other.schema, on, suffix, rename))
        if within is None:
            raise Invalid(
                "a join of two streams needs within", hint='Write within="1 hour" or within=("0 s", "1 hour")'
            )
        names.choice("how", how, ("inner", "left", "right", "full"))
        lo, hi = interval("within", within)
        policies = self._late_rows(other, how, late)
        made = joined(self.schema, other.schema, on, suffix, rename)
        fields = {"on": made.on, "how": how, "outputs": made.outputs, "lo": lo, "hi": hi, "late": policies}
        return Stream(self.graph, self._add(JoinStreams, self.node, other.node, **fields))

    def _lookup(self, table: Table, on: Names | Mapping[str, str], how: str, made: Joined) -> Stream:
        names.choice("how", how, ("inner", "left"))
        refuse_partial_key("join", table.node, made.on)
        return Stream(self.graph, self._add(Lookup, self.node, table.node, on=made.on, how=how, outputs=made.outputs))

    def _late_rows(self, other: Stream, how: str, late: Late | tuple[Late, Late] | None) -> tuple[Late, Late]:
        """What a join of streams does with late rows of either side."""
        one, two = late if isinstance(late, tuple) and len(late) == 2 else (late, late)
        policies = (late_policy(one), late_policy(two))
        if policies[0].horizon != policies[1].horizon:
            raise Invalid("join: rr.correct is for both sides, or for none", hint='Write late=rr.correct("1 hour")')
        if isinstance(policies[0], Correct) and how != "inner":
            raise Invalid(
                f"join: rr.correct is for inner joins; a {how} join has said that a row has no partner",
                hint="Say a larger lateness= where the topics are read, or put late rows aside: rr.side(…)",
            )
        for rows, policy in zip((self, other), policies, strict=True):
            if isinstance(policy, Side):
                rows._write_late(policy)
        return policies

    def _write_late(self, policy: Side) -> None:
        """Notes that late rows of this stream go to a topic, with the watermark they missed."""
        columns = Schema((*self.schema.columns, ("_watermark", TIMESTAMP)), self.schema.open)
        self.graph.write(WrittenTopic(policy.topic, columns, True, caller()))

    @declaration
    def as_of(
        self,
        table: Table,
        on: Names | Mapping[str, str],
        how: str = "inner",
        late: Late | None = None,
        suffix: str = "_right",
        rename: Mapping[str, str] | None = None,
    ) -> Stream:
        """Each row with the table's version valid at the row's time, and that version's id as `_version`.

        With rr.correct (the default, one hour) answers come at once and are corrected; with rr.drop they wait.
        """
        self._check_other("as_of", table)
        if not isinstance(table, Table):
            raise Invalid("as_of takes a table", hint="s.latest(key) makes a table of a stream")
        policy = Correct(3_600_000_000) if late is None else late
        if not isinstance(policy, DropLate | Correct):
            raise Invalid(f"as_of: late cannot be {policy}", hint='Write rr.correct("1 hour") or rr.drop()')
        names.choice("how", how, ("inner", "left"))
        for node in (self.node, table.node):
            known_columns("as_of", node)
        self._refuse_untimed(table)
        made = joined(self.schema, table.schema, on, suffix, rename, extra=(("_version", STRING),))
        refuse_partial_key("as_of", table.node, made.on)
        fields = {"on": made.on, "how": how, "outputs": made.outputs, "late": policy}
        return Stream(self.graph, self._add(AsOf, self.node, table.node, **fields))

    @declaration
    def percolate(
        self,
        queries: Table,
        text: Names,
        where: str | None = None,
        query: str = "query",
        fold: bool = False,
        stem: str | None = None,
    ) -> Stream:
        """Each row with each stored search that it meets: the row's columns, then the query's; of names on both sides the
        query's get `_query`. `text` are the columns that words are looked for in, `query` is the column of the table that
        has the searches, `where` a condition between the two: "row.lang = query.lang".

        With `fold` accents do not count; `stem` is a language in which the stems of words are compared.
        """
        from riverrun.search.words import check_language

        self._check_other("percolate", queries)
        if not isinstance(queries, Table):
            raise Invalid("percolate takes a table of queries", hint="s.latest(key) makes a table of a stream")
        for node in (self.node, queries.node):
            known_columns("percolate", node)
        fields = {"query": stored_query(query, queries.node), "text": searched(text, self.schema)}
        outputs = side_by_side(self.schema, queries.schema, (), "_query", clash=_renamed_before, operation="percolate")
        condition = None if where is None else pair_condition(where, self.schema, queries.schema, outputs)
        how = {"fold": bool(fold), "language": check_language(stem)}
        node = self._add(Percolate, self.node, queries.node, on=(), outputs=outputs, **fields, **how)
        found = Stream(self.graph, node)
        return found if condition is None else found.where(condition)

    @declaration
    def match_rules(
        self,
        rules: Table,
        by: Names | None = None,
        within: Duration = "1 day",
        late: Late | None = None,
        open_attempts: int = 1_000_000,
        steps: int = 1_000,
    ) -> Stream:
        """The matches of many patterns at once, each a row of the table `rules`: `rule_id`, the columns `by`, `match_start`,
        `match_end`, `match_id`, and `measures` as JSON. A rule that is put, changed or switched off counts for the rows that
        the watermark passes from the next epoch on. No match of a rule takes longer than `within`.

        A rule with more than `open_attempts`, or one that takes more than `steps` of the search for each row of an epoch, is
        switched off and told of in `<rules>.quarantine`; the others go on.
        """
        self._check_other("match_rules", rules)
        if not isinstance(rules, Table):
            raise Invalid("match_rules takes a table of rules", hint="flow.table(…) reads one from a topic")
        self._refuse_corrections("match_rules")
        policy = late_policy(late)
        if isinstance(policy, Correct):
            raise Invalid("match_rules cannot correct its results", hint='Use rr.drop() or rr.side("topic")')
        for node in (self.node, rules.node):
            known_columns("match_rules", node)
        check_rules(rules.node)
        keys = names.columns("by", by, self.schema)
        for name in keys:
            if name.lower() in (RULE_ID, *MADE):
                raise Invalid(f"by: {name!r} is a column of the result itself", hint="Rename it with select")
        if isinstance(policy, Side):
            self._write_late(policy)
        limits = {"open_attempts": open_attempts, "steps": steps}
        for name, value in limits.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise Invalid(f"match_rules: {name} cannot be {value!r}", hint="Give a whole number from 1")
        fields = {"by": keys, "within": positive("within", within), "late": policy, **limits}
        return Stream(self.graph, self._add(RuleMatch, self.node, rules.node, **fields))

    def _refuse_untimed(self, table: Table) -> None:
        """A table of which nobody said a time has that of arrival, which event times cannot be compared with."""
        node = table.node
        while isinstance(node, Row) and len(node.inputs) == 1:
            node = node.inputs[0]
        if node.id in self.graph.untimed:
            raise Invalid(
                f"as_of: table {node.label!r} has no time, so nobody knows which version was valid when",
                hint='Write flow.table(…, time="updated_at"); time="_received" goes by when versions came in',
            )

    def _timestamp(self, what: str, name: str) -> str:
        (found,) = names.columns(what, name, self.schema)
        if self.schema[found] not in (None, TIMESTAMP):
            raise Invalid(f"{what}: {found!r} is {self.schema[found]}, not timestamp")
        return found

    def _in_order(self, by: tuple[str, ...]) -> Node:
        """The stream with its rows in an order that no epoch decides; `by` brings those together that count."""
        return self._add(Ordered, by=by) if self.node.emergence == "mixed" else self.node

    def _refuse_corrections(self, what: str) -> None:
        if self.node.retracts:
            raise Invalid(
                f"{what} works on rows that stay, and this stream corrects its results",
                hint=f"Use {what} earlier, or late=rr.drop()",
            )

    def __getattr__(self, name: str) -> NoReturn:
        raise missing("stream", "table", name, self, Table, "group(…).agg(…) and latest(…) make a table of a stream")


def _renamed_before(name: str) -> str:
    return f'Give {name!r} of the queries another name before: .select("{name} as other", …)'
