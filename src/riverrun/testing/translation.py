"""Spark SQL expressions in DuckDB's words, for the part of the language where both mean the same.

What is not listed here is refused, not guessed: a test that passes for the wrong reason is worse than one that asks for
Spark. Every form that is listed is compared with Spark in the tests. Where they differ in a known way, it is made
up for: casts to whole numbers cut off, division by zero is an error, `round` goes half up in decimal.
"""

from __future__ import annotations

from collections.abc import Callable

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from riverrun.ddl import Decimal, Scalar, Type
from riverrun.errors import Invalid
from riverrun.flow.inference import infer
from riverrun.flow.schema import DOUBLE, STRING, TIMESTAMP, is_integral
from riverrun.flow.text import DIALECT

Typing = Callable[[exp.Expression], "Type | None"]

_SAME = (
    *(
        exp.Column,
        exp.Identifier,
        exp.Literal,
        exp.Boolean,
        exp.Null,
        exp.Paren,
        exp.Dot,
        exp.Var,
        exp.DataType,
        exp.DataTypeParam,
    ),
    *(exp.And, exp.Or, exp.Not, exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ),
    *(exp.Is, exp.In, exp.Between, exp.Like, exp.ILike, exp.RegexpLike),
    *(exp.Add, exp.Sub, exp.Mul, exp.Mod, exp.IntDiv, exp.Neg, exp.Abs, exp.Floor, exp.Ceil, exp.Exp, exp.Pow),
    *(exp.Case, exp.If, exp.Coalesce, exp.Nullif, exp.Greatest, exp.Least),
    *(exp.Concat, exp.DPipe, exp.Upper, exp.Lower, exp.Length, exp.Replace, exp.StartsWith, exp.EndsWith, exp.Contains),
    *(exp.StrPosition, exp.Reverse, exp.MD5, exp.Trim),
    *(exp.Interval, exp.Hour, exp.Minute, exp.Second, exp.Year, exp.Month, exp.Day, exp.TsOrDsToDate),
    exp.UnixMicros,
)
_UNITS = ("YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND")
_LENGTHS = ("WEEK", "DAY", "HOUR", "MINUTE", "SECOND", "MILLISECOND", "MICROSECOND")


def translated(sql: str, column: Typing) -> str:
    """The expression for DuckDB. `column` gives the types of columns; `Invalid` where only Spark knows the meaning."""
    tree = sqlglot.parse_one(sql, dialect=DIALECT)
    nodes = list(tree.walk(bfs=False))
    types = {id(node): infer(node, column, {}) for node in nodes if isinstance(node, exp.Condition)}
    for node in reversed(nodes):
        made = _rule(node, lambda part: types.get(id(part)))
        if made is not node:
            types[id(made)] = types.get(id(node))
            if node is tree:
                tree = made
            else:
                node.replace(made)
    try:
        return str(tree.sql(dialect="duckdb", unsupported_level=sqlglot.ErrorLevel.RAISE))
    except SqlglotError as error:
        raise Invalid(f"{sql}: {error}", hint=HINT) from None


HINT = 'Run it with engine="spark"'


def _rule(node: exp.Expression, type_of: Typing) -> exp.Expression:
    """The node as DuckDB should see it."""
    match node:
        case exp.Cast() if not (isinstance(node, exp.TryCast) and node.args.get("safe")):
            return _cast(node, type_of)
        case exp.Div() if not isinstance(type_of(node), Decimal):
            return _call_unless_zero(node)
        case exp.IntDiv() | exp.Mod():
            return node if isinstance(node.expression, exp.Literal) else _call_unless_zero(node)
        case exp.Sqrt():
            negative = exp.LT(this=node.this.copy(), expression=exp.Literal.number(0))
            nan = exp.Cast(this=exp.Literal.string("nan"), to=exp.DataType.build("double"))
            return exp.Case(ifs=[exp.If(this=negative, true=nan)], default=node.copy())
        case exp.IsNan():  # of null it is false
            return exp.Coalesce(this=node.copy(), expressions=[exp.false()])
        case exp.Round():
            return _round(node, type_of)
        case exp.Substring() if _is_positive(node.args.get("start")):
            return node
        case exp.Left() | exp.Right() if _is_positive(node.expression):
            return node
        case exp.SplitPart() if _is_text(node.args["delimiter"]) and _is_positive(node.args["part_index"]):
            return node
        case exp.SHA2() if node.args.get("length") is None or node.args["length"].name in ("0", "256"):
            return exp.func("sha256", node.this.copy())
        case exp.TimestampTrunc() if node.text("unit").upper() in _UNITS:
            return node
        case exp.DateDiff() if not node.args.get("unit"):
            return node
        case exp.Anonymous() if node.name.lower() in ("isnull", "isnotnull") and len(node.expressions) == 1:
            test = exp.Is(this=node.expressions[0].copy(), expression=exp.Null())
            return exp.Paren(this=test if node.name.lower() == "isnull" else exp.Not(this=test))
        case exp.UnixMillis() | exp.UnixSeconds():
            return _whole(node.this.sql(dialect="duckdb"), 1000 if isinstance(node, exp.UnixMillis) else 1_000_000)
        case exp.Like() | exp.ILike() if not node.expression.is_string or "\\" in node.expression.name:
            raise _refused(node)
        case exp.Add() | exp.Sub() if _adds_to_a_date(node, type_of):
            raise _refused(node)
        case exp.Interval() if node.text("unit").upper().removesuffix("S") not in _LENGTHS:
            raise _refused(node)
        case exp.StrPosition() | exp.Trim() | exp.Floor() | exp.Ceil() if _has_more(node):
            raise _refused(node)
        case exp.In() if not node.expressions:
            raise _refused(node)
        case exp.TsOrDsToDate() if node.args.get("format") or str(type_of(node.this)) not in ("timestamp", "date"):
            raise _refused(node)
    if isinstance(node, _SAME) and type(node) in _SAME:
        return node
    raise _refused(node)


def _refused(node: exp.Expression) -> Invalid:
    written = node.sql(dialect=DIALECT, unsupported_level=sqlglot.ErrorLevel.IGNORE)
    return Invalid(f"{written} is not known to mean the same without Spark", hint=HINT)


def _has_more(node: exp.Expression) -> bool:
    """Arguments beyond the usual ones: where to start, what to trim, how many digits."""
    known = {"this", "substr"}
    return any(value for name, value in node.args.items() if name not in known)


def _adds_to_a_date(node: exp.Expression, type_of: Typing) -> bool:
    """With an interval of hours or days, where the sum stays a date in Spark and is a timestamp in DuckDB."""
    sides = (node.this, node.expression)
    return any(isinstance(side, exp.Interval) for side in sides) and TIMESTAMP not in map(type_of, sides)


def _whole(moment: str, unit: int) -> exp.Expression:
    """Whole units since 1970, of earlier moments too."""
    return _duckdb(f"((EPOCH_US({moment}) - (EPOCH_US({moment}) % {unit} + {unit}) % {unit}) // {unit})")


def _is_text(node: exp.Expression | None) -> bool:
    return isinstance(node, exp.Literal) and node.is_string and node.name != ""


def _is_positive(node: exp.Expression | None) -> bool:
    return isinstance(node, exp.Literal) and not node.is_string and node.name.isdigit() and int(node.name) > 0


def _call_unless_zero(node: exp.Expression) -> exp.Expression:
    """Division; by zero it is an error, as in Spark."""
    zero = exp.EQ(this=exp.Paren(this=node.expression.copy()), expression=exp.Literal.number(0))
    failure = exp.func("error", exp.Literal.string("division by zero"))
    plain = node.copy()
    if isinstance(plain, exp.Div):
        plain.set("safe", False)
        plain.set("typed", False)
    return exp.Paren(this=exp.Case(ifs=[exp.If(this=zero, true=failure)], default=plain))


def _round(node: exp.Round, type_of: Typing) -> exp.Expression:
    """Half up in the decimal digits that a double is written with."""
    kind = type_of(node.this)
    if isinstance(kind, Decimal) or is_integral(kind):
        return node
    digits = node.args.get("decimals")
    if kind != DOUBLE or not (digits is None or _is_positive(digits) or digits.name == "0"):
        raise _refused(node)
    value = node.this.sql(dialect="duckdb")
    count = digits.name if digits is not None else "0"
    written = f"CAST(ROUND(CAST(CAST({value} AS VARCHAR) AS DECIMAL(38, 17)), {count}) AS DOUBLE)"
    return _duckdb(f"(CASE WHEN isfinite({value}) AND abs({value}) < 1e15 THEN {written} ELSE {value} END)")


def _cast(node: exp.Cast, type_of: Typing) -> exp.Expression:
    """A cast that fails where Spark's fails, cuts off where Spark's cuts off, and writes what Spark writes."""
    before, after = type_of(node.this), type_of(node)
    value = node.this.sql(dialect="duckdb")
    kind = node.args["to"].sql(dialect="duckdb")
    if isinstance(node.this, exp.Literal | exp.Null):
        return _duckdb(f"CAST({value} AS {kind})")
    if before is None or after is None:
        raise _refused(node)
    fractional = isinstance(before, Decimal) or before in (DOUBLE, Scalar("float"))
    if is_integral(after) and fractional:
        return _duckdb(f"CAST(TRUNC({value}) AS {kind})")
    if is_integral(after) and before == STRING:
        return _duckdb(
            f"(CASE WHEN {value} IS NULL OR regexp_full_match(trim({value}), '[+-]?[0-9]+')"
            f" THEN CAST({value} AS {kind}) ELSE error('not a whole number: ' || {value}) END)"
        )
    if before == TIMESTAMP and is_integral(after):
        return _duckdb(f"CAST({_whole(value, 1_000_000)} AS {kind})")
    if before == TIMESTAMP and after == DOUBLE:
        return _duckdb(f"(EPOCH_US({value}) / 1000000)")
    if before == TIMESTAMP and after == STRING:
        return _duckdb(f"CAST(CAST({value} AS TIMESTAMP) AS VARCHAR)")
    same = before == after or (_is_number(before) and _is_number(after))
    if same or (str(before), str(after)) in _CASTS or (after == STRING and is_integral(before)):
        return _duckdb(f"CAST({value} AS {kind})")
    raise _refused(node)


_CASTS = {
    ("timestamp", "date"),
    ("date", "timestamp"),
    ("date", "string"),
    ("boolean", "string"),
    ("boolean", "int"),
    ("string", "double"),
    ("string", "date"),
    ("string", "timestamp"),
    ("string", "boolean"),
}


def _is_number(kind: Type) -> bool:
    return isinstance(kind, Decimal) or is_integral(kind) or kind in (DOUBLE, Scalar("float"))


def _duckdb(sql: str) -> exp.Expression:
    """Text for DuckDB that is not looked at again."""
    return exp.Var(this=sql)
