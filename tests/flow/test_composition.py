"""What Spark gets is what was written: stateless nodes are composed as text, and only columns are replaced."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from riverrun.ddl import backquoted
from riverrun.flow import Flow, Stream
from riverrun.flow.composition import Composition, paths

SCHEMA = "u string, n int, `it's` int, xs array<int>"
ORIGIN = {"u": "`o`.`u`", "n": "`o`.`n`", "it's": "`o`.`it's`", "xs": "`o`.`xs`"}

# (SQL with a place for a column, whether it is a number or a text)
TEXTS = [("concat({}, 'it''s n')", "u"), ('replace({}, "n", "u ""n""")', "u"), ("collate( {},'X')", "u"), ("{}", "u")]
NUMBERS = [("to_char({}, '0009')", "u"), ("log10({})", "n"), ("{}+1", "n"), ("-{}", "n"), ("{}", "n")]
NUMBERS += [("aggregate(xs, 0, (a, n) -> a + n) + {}", "n"), ("named_struct('n', {}).n", "n"), ("abs({}) /* n */", "n")]
CONDITIONS = [("{} > 1 or {} < 0", "n"), ("{} = 'o''neil; n'", "u"), ("not {} is null -- n", "n"), ("{} in (1,2)", "n")]


def begin(columns: Iterable[str]) -> Composition:
    values = {name: f"`o`.{backquoted(name)}" for name in columns}
    return Composition(values, {name: name for name in columns})


@dataclass
class Written:
    """The naive composition: for every column, the text it comes to."""

    stream: Stream
    columns: dict[str, str]
    conditions: list[str]

    def text(self, template: str, column: str) -> str:
        if template == "{}":
            return self.columns[column]
        bare = template.replace(" -- n", "").replace(" /* n */", "").replace("xs", self.columns["xs"])
        made = self.columns[column]
        return bare.replace("{}", made if made in ORIGIN.values() else f"({made})")


steps = st.one_of(
    st.tuples(st.just("where"), st.sampled_from(CONDITIONS)),
    st.tuples(st.just("with_columns"), st.sampled_from([*TEXTS, *NUMBERS[1:]])),
    st.tuples(st.just("select"), st.sampled_from([*TEXTS, *NUMBERS[1:]])),
)


@given(taken=st.lists(steps, min_size=1, max_size=5))
@settings(max_examples=100, deadline=None)
def test_the_composition_is_the_text_with_columns_replaced(taken: list[tuple[str, tuple[str, str]]]) -> None:
    flow = Flow("f")
    now = Written(flow.stream("a", SCHEMA), dict(ORIGIN), [])
    for kind, (template, column) in taken:
        sql = template.replace("{}", column)
        made = now.text(template, column)
        if kind == "where":
            now.stream = now.stream.where(sql)
            now.conditions.append(f"({made})")
            continue
        if kind == "select":
            others = [name if name != "it's" else "`it's`" for name in ORIGIN if name != column]
            now.stream = now.stream.select(*others, f"{sql}\n as {column}")
        else:
            now.stream = now.stream.with_columns(**{column: sql})
        now.columns[column] = made
    (path,) = paths(now.stream.node)
    found = begin(ORIGIN).follow(path)
    assert found.condition == (" AND ".join(now.conditions) or None)
    for name, text in now.columns.items():
        assert found.item(name).sql == text


@pytest.mark.parametrize("name", ["it's", "a`b", "a b", "Größe", "null", "select"])
def test_names_are_quoted(name: str) -> None:
    flow = Flow("f")
    quoted = "`" + name.replace("`", "``") + "`"
    stream = (
        flow.stream("a", f"{quoted} int, u string").with_columns(v=f"{quoted} + 1").where(f"v > 1 and {quoted} > 0")
    )
    (path,) = paths(stream.node)
    found = begin([name, "u"]).follow(path)
    assert found.condition == f"((`o`.{quoted} + 1) > 1 and `o`.{quoted} > 0)"
    assert found.item(name).column == name


def test_a_renamed_column_is_a_field_of_its_new_name() -> None:
    flow = Flow("f")
    stream = flow.stream("a", SCHEMA).select("n as m", "u || '!' as w").select("struct(m, w) as both")
    (path,) = paths(stream.node)
    found = begin(ORIGIN).follow(path)
    assert found.item("both").sql == "struct(`o`.`n` AS m, (`o`.`u` || '!') AS w)"
