"""Arrays, maps and structs."""

from __future__ import annotations

from riverrun.ddl import Array, Map, Struct
from riverrun.expressions.casts import cast
from riverrun.expressions.forms import Given, form
from riverrun.expressions.term import Term, duckdb_type, failure, quoted, strict, string
from riverrun.flow.coercion import is_stored
from riverrun.flow.schema import BIGINT, BOOLEAN, INT, STRING, is_integral, is_scalar
from riverrun.flow.syntax import Call, Constant, Name


@form("array")
def array(given: Given) -> Term:
    if not isinstance(given.type, Array) or not is_stored(given.type):
        given.refuse()
    terms = [cast(term, given.type.element) for term in given.arguments]
    sql = f"CAST([{', '.join(term.sql for term in terms)}] AS {duckdb_type(given.type)})"
    return Term(sql, given.type, any(term.may_fail for term in terms), 5 + sum(term.cost for term in terms))


@form("named_struct")
def named_struct(given: Given) -> Term:
    if not isinstance(given.type, Struct) or len(given.arguments) % 2 or not is_stored(given.type):
        given.refuse()
    names = [field.name for field in given.type.fields]
    if len({name.lower() for name in names}) != len(names) or "" in names:
        given.refuse()
    values = given.arguments[1::2]
    fields = ", ".join(f"{quoted(name)} := {term.sql}" for name, term in zip(names, values, strict=True))
    fails = any(term.may_fail for term in values)
    return Term(f"struct_pack({fields})", given.type, fails, 3 + sum(term.cost for term in values))


@form("[]")
def item(given: Given) -> Term:
    """An element by its index from 0, or the value of a key. Beyond the end is an error; a key may be missing."""
    value, index = given.expect(2)
    if isinstance(value.type, Map):
        return _looked_up(given, value, index)
    if not isinstance(value.type, Array) or not is_integral(index.type):
        given.refuse()
    _check_index(given)
    index = cast(index, BIGINT)

    def build(a: str, i: str) -> str:
        outside = f"{a} IS NOT NULL AND ({i} < 0 OR {i} >= len({a}))"
        return f"(CASE WHEN {outside} THEN {failure('the index is outside of the array')} ELSE {a}[{i} + 1] END)"

    return strict(value.type.element, [value, index], build, may_fail=True, cost=4, repeats=True)


@form("element_at")
def element(given: Given) -> Term:
    """An element by its number from 1, or from the end with a negative one; or the value of a key."""
    value, number = given.expect(2)
    if isinstance(value.type, Map):
        return _looked_up(given, value, number)
    if not isinstance(value.type, Array) or not is_integral(number.type):
        given.refuse()
    _check_index(given)
    number = cast(number, INT)

    def build(a: str, n: str) -> str:
        outside = f"{a} IS NOT NULL AND ({n} = 0 OR abs(CAST({n} AS BIGINT)) > len({a}))"
        return f"(CASE WHEN {outside} THEN {failure('the index is outside of the array')} ELSE {a}[{n}] END)"

    return strict(value.type.element, [value, number], build, may_fail=True, cost=4, repeats=True)


def _check_index(given: Given) -> None:
    """Of an array that is never null, Spark takes an element for never null, even if the index is null."""
    array, index = given.call.arguments
    if not isinstance(array, Name) and not isinstance(index, Constant):
        given.refuse("has an index that is not written out, of an array that is no column")
    if given.arguments[0].may_fail and not (isinstance(array, Call) and array.name == "split"):
        given.refuse("is an element of something that may fail, of which Spark may compute only a part")


def _looked_up(given: Given, value: Term, key: Term) -> Term:
    assert isinstance(value.type, Map)
    kind = value.type.key
    if key.type != kind or not (kind == STRING or is_integral(kind)):
        given.refuse()
    return strict(value.type.value, [value, key], lambda a, k: f"{a}[{k}]", cost=5)


@form("size", "cardinality", "array_size")
def size(given: Given) -> Term:
    (value,) = given.expect(1)
    if not isinstance(value.type, Array | Map):
        given.refuse()
    count = "len" if isinstance(value.type, Array) else "cardinality"
    return strict(INT, [value], lambda a: f"CAST({count}({a}) AS INTEGER)")


@form("array_contains")
def contains(given: Given) -> Term:
    """Null where it has no such element but a null."""
    value, wanted = given.expect(2)
    if not isinstance(value.type, Array) or not is_scalar(value.type.element) or wanted.type != value.type.element:
        given.refuse()

    def build(a: str, b: str) -> str:
        missing = f"{a} IS NULL OR {b} IS NULL"
        uncertain = f"list_count({a}) < len({a})"
        found = f"WHEN list_contains({a}, {b}) THEN TRUE"
        return f"(CASE WHEN {missing} THEN NULL {found} WHEN {uncertain} THEN NULL ELSE FALSE END)"

    return strict(BOOLEAN, [value, wanted], build, cost=8, repeats=True)


def field(value: Term, name: str) -> Term:
    """A field of a struct."""
    assert isinstance(value.type, Struct)
    kind = next(part.type for part in value.type.fields if part.name.lower() == name.lower())
    return strict(kind, [value], lambda a: f"struct_extract({a}, {string(name)})")
