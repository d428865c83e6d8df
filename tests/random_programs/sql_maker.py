"""Random conditions, values and aggregates over the columns of a node."""

from __future__ import annotations

import random
from decimal import Decimal

from random_programs.expressions import Expression
from random_programs.program import Aggregation
from random_programs.shapes import Shape
from random_programs.values import INTEGRAL, MANY, NUMERIC

COMPARED = (*INTEGRAL, "float", "double", "decimal(12,2)", "string", "boolean")
_UNORDERED = ("count", "sum", "avg", "min", "max", "stddev", "distinct", "quantile", "top")


def condition(dice: random.Random, shape: Shape, depth: int = 0) -> Expression | None:
    """A condition, if the node has a column to ask about."""
    names = shape.of(*COMPARED)
    if not names:
        return None
    if depth < 2 and dice.random() < 0.3:
        one, other = condition(dice, shape, depth + 1), condition(dice, shape, depth + 1)
        assert one and other
        return ("not", one) if dice.random() < 0.3 else (dice.choice(["and", "or"]), one, other)
    name = dice.choice(names)
    if dice.random() < 0.2:
        return ("is null", ("column", name))
    literal = ("literal", _literal(dice, shape.columns[name]))
    return (dice.choice(["=", "<", ">=", "<=>"]), ("column", name), literal)


def _literal(dice: random.Random, kind: str) -> object:
    match kind:
        case "string":
            return dice.choice(["a", "b", "", "é", "it's"])
        case "boolean":
            return dice.random() < 0.5
        case "float" | "double":
            return dice.choice([0.0, 1.0, 2.5])
        case "decimal(12,2)":
            return dice.choice([Decimal("0.10"), Decimal("2.50")])
    return dice.choice([0, 1, 2, 5])


def expression(dice: random.Random, shape: Shape) -> Expression:
    """A value: usually a column, sometimes something computed."""
    name = dice.choice(shape.of(*MANY))
    kind, column = shape.columns[name], ("column", name)
    if dice.random() < 0.5:
        return column
    match kind:
        case "tinyint" | "smallint" | "int" | "bigint":
            return dice.choice(
                [("+", ("long", column), ("literal", 1)), ("*", ("long", column), ("literal", 2)), column]
            )
        case "double":
            return dice.choice([("*", column, ("literal", 2.0)), ("coalesce", column, ("literal", 1.0))])
        case "string":
            made = [("concat", column, ("literal", "x")), ("length", column), ("coalesce", column, ("literal", "none"))]
            made += [("upper", column), ("lower", column)]
            return dice.choice(made)
        case "boolean":
            return ("not", column)
    asked = condition(dice, shape)
    return ("case", asked, column, column) if asked is not None else column


def aggregations(dice: random.Random, shape: Shape, span: bool) -> tuple[Aggregation, ...]:
    """A few aggregates; those that depend on an order only where there is one."""
    functions = [*_UNORDERED, *(["first", "last", "collect"] if shape.ties is not None else [])]
    functions += ["rate"] if span else []
    made = []
    for number in range(dice.randint(1, 3)):
        function = dice.choice(functions)
        made.append(_aggregation(dice, shape, f"a{number}", function) or Aggregation(f"a{number}", "count"))
    return tuple(made)


def _aggregation(dice: random.Random, shape: Shape, name: str, function: str) -> Aggregation | None:
    where = condition(dice, shape) if dice.random() < 0.25 else None
    if function == "rate" or (function == "count" and dice.random() < 0.5):
        return Aggregation(name, function, None, where)
    names = shape.of(*(NUMERIC if function in ("sum", "avg", "stddev", "quantile") else MANY))
    if not names:
        return None
    value = ("column", dice.choice(names))
    argument = {"quantile": dice.choice([0.0, 0.5, 0.9, 1.0]), "top": dice.randint(1, 3)}.get(function)
    return Aggregation(name, function, value, where, argument)
