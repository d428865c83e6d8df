"""The type of an expression, by Spark's rules, without Spark.

The rules are written out here because sqlglot's own annotation differs from Spark where it matters (decimal arithmetic,
literals, timestamp differences), and a wrong type would be worse than none: what is not certain is None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sqlglot import exp

from riverrun import ddl
from riverrun.ddl import Array, Column, Decimal, Map, Scalar, Struct, Type
from riverrun.errors import Invalid
from riverrun.flow.functions import BYTES_TOO, LIKE_ALL, LIKE_FIRST, RESULTS
from riverrun.flow.schema import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    as_decimal,
    bounded,
    common,
)

Variables = Mapping[str, Type | None]
Typing = Callable[["exp.Expression | None"], "Type | None"]


def infer(node: exp.Expression, column: Typing, bound: Variables) -> Type | None:
    """The type of `node`; `column` knows the columns, `bound` the variables of enclosing lambdas."""

    def of(part: exp.Expression | None) -> Type | None:
        return None if part is None else infer(part, column, bound)

    match node:
        case exp.Column():
            return column(node)
        case exp.Identifier():
            return bound.get(node.name.lower())
        case exp.Literal():
            return STRING if node.is_string else _number(node.name)
        case exp.Boolean() | exp.Not() | exp.Connector():
            return BOOLEAN
        case exp.Cast():
            return _written(node.args["to"])
        case exp.Add() | exp.Sub() | exp.Mul() | exp.Div() | exp.Mod():
            return _arithmetic(node, of)
        case exp.IntDiv():
            return BIGINT
        case exp.BitwiseAnd() | exp.BitwiseOr() | exp.BitwiseXor():
            return common(of(node.this), of(node.expression))
        case exp.DPipe() | exp.Concat():
            parts = node.expressions or [node.this, node.expression]
            return STRING if any(of(part) == STRING for part in parts) else None
        case exp.Case():
            return _common([*(branch.args["true"] for branch in node.args["ifs"]), node.args.get("default")], of)
        case exp.If():
            return _common([node.args["true"], node.args.get("false")], of)
        case exp.Floor() | exp.Ceil():
            whole = of(node.this)
            return BIGINT if isinstance(whole, Scalar) and not node.args.get("decimals") else None
        case exp.Round():
            rounded = of(node.this)
            return rounded if isinstance(rounded, Scalar) else None
        case exp.TsOrDsAdd() | exp.DateAdd() | exp.DateSub():
            return DATE if of(node.this) == DATE and node.text("unit").upper() in ("", "DAY") else None
        case exp.DateDiff():
            return None if node.args.get("unit") else INT
        case exp.Bracket():
            return _element(of(node.this), None)
        case exp.Dot():
            return _element(of(node.this), node.expression.name)
        case exp.Array():
            element = _common(node.expressions, of)
            return Array(element) if element else None
        case exp.Struct():
            return _struct(node, of)
        case exp.Transform():
            return _mapped(node, of, column, bound)
        case exp.Predicate():
            return BOOLEAN
        case exp.Anonymous():
            return _call(node.name.lower(), node.expressions, of)
    arguments = [node.args.get("this"), *node.expressions] if "this" in node.args else node.expressions
    return _call(node.key, arguments, of)


def _call(name: str, arguments: list[exp.Expression], of: Typing) -> Type | None:
    if name in LIKE_ALL:
        return _common(arguments, of)
    if name in LIKE_FIRST and arguments:
        return of(arguments[0])
    result = RESULTS.get(name)
    text_or_bytes = result == STRING and any(of(argument) in (None, BINARY) for argument in arguments[:1])
    return None if text_or_bytes and name in BYTES_TOO else result


def _common(parts: Iterable[exp.Expression | None], of: Typing) -> Type | None:
    types = [of(part) for part in parts if part is not None and not isinstance(part, exp.Null)]
    if not types:
        return None
    found = types[0]
    for other in types[1:]:
        found = common(found, other)
    return found


def _number(text: str) -> Type | None:
    if text.isdigit():
        value = int(text)
        return (
            INT
            if value < 1 << 31
            else BIGINT
            if value < 1 << 63
            else Decimal(len(text), 0)
            if len(text) <= 38
            else None
        )
    if "e" in text.lower():
        return DOUBLE
    whole, _, fraction = text.partition(".")
    digits = len(whole.lstrip("0")) + len(fraction)
    return Decimal(max(digits, 1), len(fraction)) if text.replace(".", "").isdigit() and digits <= 38 else None


def _arithmetic(node: exp.Expression, of: Typing) -> Type | None:
    left, right = of(node.this), of(node.expression)
    if isinstance(node.expression, exp.Interval):
        return TIMESTAMP if left == TIMESTAMP else None
    if isinstance(node.this, exp.Interval):
        return TIMESTAMP if right == TIMESTAMP else None
    if left is None or right is None or {left, right} & {TIMESTAMP, STRING, BOOLEAN}:
        return None
    if isinstance(left, Decimal) or isinstance(right, Decimal):
        one, other = _exact(node.this, left), _exact(node.expression, right)
        return _decimal(node, one, other) if one and other else common(left, right)
    both = common(left, right)
    return DOUBLE if isinstance(node, exp.Div) and both else both


def _exact(part: exp.Expression, known: Type) -> Decimal | None:
    """A whole number literal beside a decimal counts with the digits it has."""
    if isinstance(part, exp.Literal) and not part.is_string and part.name.isdigit():
        return Decimal(len(part.name), 0)
    return as_decimal(known)


def _decimal(node: exp.Expression, one: Decimal, other: Decimal) -> Decimal:
    whole = max(one.precision - one.scale, other.precision - other.scale)
    scale = max(one.scale, other.scale)
    match node:
        case exp.Mul():
            return bounded(one.precision + other.precision + 1, one.scale + other.scale)
        case exp.Div():
            scale = max(6, one.scale + other.precision + 1)
            return bounded(one.precision - one.scale + other.scale + scale, scale)
        case exp.Mod():
            return bounded(min(one.precision - one.scale, other.precision - other.scale) + scale, scale)
    return bounded(whole + scale + 1, scale)


def _element(container: Type | None, name: str | None) -> Type | None:
    match container:
        case Array(Struct() as element) if name:
            inner = _element(element, name)
            return Array(inner) if inner else None
        case Array(element):
            return element
        case Map(_, value):
            return value
        case Struct(fields) if name:
            return next((field.type for field in fields if field.name.lower() == name.lower()), None)
    return None


def _struct(node: exp.Expression, of: Typing) -> Type | None:
    fields = []
    for part in node.expressions:
        known = of(part.expression) if isinstance(part, exp.PropertyEQ) else None
        if known is None:
            return None
        fields.append(Column(part.this.name, known))
    return Struct(tuple(fields))


def _mapped(
    node: exp.Expression,
    of: Typing,
    column: Typing,
    bound: Variables,
) -> Type | None:
    items, body = of(node.this), node.args.get("expression")
    if not isinstance(items, Array) or not isinstance(body, exp.Lambda):
        return None
    names = [variable.name.lower() for variable in body.expressions]
    inner = infer(body.this, column, {**bound, **dict(zip(names, (items.element, INT), strict=False))})
    return Array(inner) if inner else None


def _written(written: exp.Expression) -> Type | None:
    text = written.sql(dialect="spark")
    try:
        return ddl.parse_type(text)
    except Invalid:
        return None
