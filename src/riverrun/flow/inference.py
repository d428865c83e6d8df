"""The type of an expression, by Spark's rules, without Spark.

A wrong type would be worse than none: what is not certain is None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from riverrun.ddl import Array, Column, Decimal, Map, Struct, Type
from riverrun.flow import coercion
from riverrun.flow.coercion import FLOAT, is_stored, widest
from riverrun.flow.functions import BYTES_TOO, CASTS, LIKE_ALL, LIKE_FIRST, RESULTS
from riverrun.flow.parser import parse
from riverrun.flow.schema import BIGINT, BINARY, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, is_integral, is_numeric
from riverrun.flow.syntax import VOID, Call, Cast, Constant, Field, Lambda, Name, Tree, UnknownSyntax

Columns = Callable[[tuple[str, ...]], "Type | None"]
"""The type of a column, or of a field inside it, by its name in parts."""

Typing = Callable[[Tree], "Type | None"]

_ARITHMETIC = ("+", "-", "*", "/", "%", "div", "mod", "pmod")
_SHIFTS = ("<<", ">>", ">>>", "shiftleft", "shiftright", "shiftrightunsigned")
_FIELDS = ("year", "quarter", "month", "week", "day", "dow", "doy", "hour", "minute")
_TRUTHS = ("=", "<", "<=", ">", ">=", "<=>", "and", "or", "not", "in", "between", "like", "ilike", "rlike", "!")


def infer(sql: str, column: Columns) -> Type | None:
    """The type of an expression, None where only Spark can tell."""
    try:
        tree = parse(sql)
    except UnknownSyntax:
        return None
    kind = _infer(tree, column, {})
    return kind if kind is not None and is_stored(kind) else None


def _infer(tree: Tree, column: Columns, bound: Mapping[str, Type | None]) -> Type | None:
    def of(part: Tree) -> Type | None:
        if isinstance(part, Name) and part.parts[0].lower() in bound:
            return _inside(bound[part.parts[0].lower()], part.parts[1:])
        if isinstance(part, Name):
            return column(part.parts)
        if isinstance(part, Call) and part.name == "transform":
            return _mapped(part)
        return type_of(part, of)

    def _mapped(call: Call) -> Type | None:
        items, body = of(call.arguments[0]), call.arguments[-1]
        if not isinstance(items, Array) or not isinstance(body, Lambda):
            return None
        variables = dict(zip(body.variables, (items.element, INT), strict=False))
        inner = _infer(body.body, column, {**bound, **variables})
        return Array(inner) if inner else None

    return of(tree)


def type_of(tree: Tree, of: Typing) -> Type | None:
    """The type of a tree that is no name; `of` gives the types of its parts."""
    match tree:
        case Constant():
            return tree.type
        case Cast():
            return tree.type
        case Field():
            return _inside(of(tree.value), (tree.name,))
        case Call():
            return _call(tree, of)
    return None


def _inside(kind: Type | None, names: Sequence[str]) -> Type | None:
    """The type of a field inside a field; of an array of structs, it is an array."""
    for name in names:
        match kind:
            case Array(Struct() as element):
                inner = _inside(element, (name,))
                kind = Array(inner) if inner else None
            case Map(_, value):
                kind = value
            case Struct(fields):
                kind = next((field.type for field in fields if field.name.lower() == name.lower()), None)
            case _:
                return None
    return kind


def _call(call: Call, of: Typing) -> Type | None:
    name, arguments = call.name, call.arguments
    if name in _TRUTHS:
        return BOOLEAN
    if name in _ARITHMETIC and len(arguments) == 2:
        return _arithmetic({"mod": "%"}.get(name, name), arguments, of)
    if name == "case":
        values = [*arguments[1::2], *(arguments[-1:] if len(arguments) % 2 else ())]
        return _common(values, of)
    if name == "if" and len(arguments) == 3:
        return _common(arguments[1:], of)
    if name == "nvl2" and len(arguments) == 3:
        return _common(arguments[1:], of)
    if name == "nanvl":
        return _common(arguments, of)
    if name in LIKE_ALL:
        return _common(arguments, of, strings=name not in ("greatest", "least"))
    if name in CASTS and len(arguments) == 1:
        return CASTS[name]
    if name in RESULTS:
        is_text = RESULTS[name] == STRING and name in BYTES_TOO
        return None if is_text and arguments and of(arguments[0]) in (None, BINARY) else RESULTS[name]
    return _shaped(name, arguments, of) if arguments else None


def _shaped(name: str, arguments: Sequence[Tree], of: Typing) -> Type | None:
    """The type of a call whose result depends on what it is given."""
    first = of(arguments[0])
    match name:
        case "negative" | "positive" | "abs" if first == STRING:
            return DOUBLE
        case _ if name in LIKE_FIRST:
            return first
        case "&" | "|" | "^" if first is not None and (second := of(arguments[1])) is not None:
            both = coercion.exact_wider(first, second)
            return both if is_integral(both) else None
        case _ if name in _SHIFTS:
            return BIGINT if first == BIGINT else INT if is_integral(first) else None
        case "concat" | "||":
            return _concatenated([of(part) for part in arguments])
        case "floor" | "ceil" | "ceiling" if len(arguments) == 1:
            return _whole(first)
        case "round" | "bround":
            return _rounded(first, arguments[1] if len(arguments) > 1 else None)
        case "date_add" | "dateadd" | "date_sub":
            return DATE
        case "extract" | "date_part" | "datepart":
            return INT if isinstance(arguments[0], Constant) and arguments[0].value in _FIELDS else None
        case "timestampadd":
            return TIMESTAMP if first == STRING and of(arguments[-1]) == TIMESTAMP else None
        case "[]" | "element_at" | "try_element_at" | "get":
            return first.element if isinstance(first, Array) else first.value if isinstance(first, Map) else None
        case "array":
            element = _common(arguments, of)
            return Array(element) if element else None
        case "map":
            key, value = _common(arguments[::2], of), _common(arguments[1::2], of)
            return Map(key, value) if key and value else None
        case "map_keys" | "map_values" if isinstance(first, Map):
            return Array(first.key if name == "map_keys" else first.value)
        case "named_struct":
            return _struct(arguments, of)
    return None


def _common(parts: Sequence[Tree], of: Typing, strings: bool = True) -> Type | None:
    types = [of(part) for part in parts]
    known = [kind for kind in types if kind is not None]
    return widest(known, strings) if known and len(known) == len(types) else None


def _arithmetic(operator: str, arguments: Sequence[Tree], of: Typing) -> Type | None:
    left, right = (of(part) for part in arguments)
    if left is None or right is None:
        return None
    result = coercion.datetime_result(operator, left, right)
    if result is not None:
        return result
    sides = coercion.operands(left, right, (arguments[0], arguments[1]))
    return None if sides is None else coercion.computed(operator, sides)


def _concatenated(types: Sequence[Type | None]) -> Type | None:
    if any(kind is None or kind == BINARY or isinstance(kind, Array | Map | Struct) for kind in types):
        return None
    return STRING


def _whole(kind: Type | None) -> Type | None:
    """Of floor and ceil."""
    if isinstance(kind, Decimal):
        return kind if kind.scale == 0 else Decimal(min(kind.precision - kind.scale + 1, 38), 0)
    return BIGINT if kind is not None and (is_numeric(kind) or kind in (STRING, VOID)) else None


def _rounded(kind: Type | None, digits: Tree | None) -> Type | None:
    if not isinstance(kind, Decimal):
        return DOUBLE if kind == STRING else kind if kind in (DOUBLE, FLOAT) or is_integral(kind) else None
    scale = 0
    if digits is not None:
        if not isinstance(digits, Constant) or not isinstance(digits.value, int):
            return None
        scale = digits.value
    whole = kind.precision - kind.scale + 1
    if scale < 0:
        return Decimal(min(max(whole, -scale + 1), 38), 0)
    return Decimal(min(whole + min(scale, kind.scale), 38), min(scale, kind.scale))


def _struct(arguments: Sequence[Tree], of: Typing) -> Type | None:
    fields = []
    for name, value in zip(arguments[::2], arguments[1::2], strict=False):
        kind = of(value)
        if not isinstance(name, Constant) or not isinstance(name.value, str) or kind is None:
            return None
        fields.append(Column(name.value, kind))
    return Struct(tuple(fields))
