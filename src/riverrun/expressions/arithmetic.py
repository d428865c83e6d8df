"""Arithmetic of whole numbers and doubles. Overflow and division by zero are errors, as in Spark's ANSI mode."""

from __future__ import annotations

from dataclasses import replace

from riverrun.ddl import Decimal
from riverrun.expressions import decimals, temporal
from riverrun.expressions.casts import cast
from riverrun.expressions.constants import constant, whole
from riverrun.expressions.folding import folded_call
from riverrun.expressions.forms import Given, form
from riverrun.expressions.term import Term, duckdb_type, failure, let, null, strict
from riverrun.flow import coercion
from riverrun.flow.coercion import FLOAT, is_interval
from riverrun.flow.schema import BIGINT, DOUBLE, INT, STRING, is_integral

ZERO = "division by zero"
_DIVISIONS = ("/", "%", "mod", "div")


@form("+", "-", "*", *_DIVISIONS)
def arithmetic(given: Given) -> Term:
    left, right = given.expect(2)
    operator = {"mod": "%"}.get(given.call.name, given.call.name)
    if coercion.datetime_result(operator, left.type, right.type) is not None:
        return temporal.arithmetic(given, operator, left, right)
    sides = coercion.operands(left.type, right.type, (given.call.arguments[0], given.call.arguments[1]))
    if sides is None:
        given.refuse()
    if isinstance(sides[0], Decimal):
        return decimals.arithmetic(given, operator, cast(left, sides[0]), cast(right, sides[1]))
    left, right = cast(left, sides[0]), cast(right, sides[1])
    if operator == "div" and not is_integral(left.type):
        given.refuse()
    if operator in ("/", "div"):
        kind = DOUBLE if operator == "/" else BIGINT
        left, right = cast(left, kind), cast(right, kind)
    if operator in _DIVISIONS:
        return division(operator, left, right)
    if operator in ("+", "*") and is_integral(given.type):
        if any(term.rowless and term.constant is None for term in given.arguments):
            given.refuse("has a number that Spark computes before, with those beside it")
        return _regrouped(given, operator, left, right)
    fails = is_integral(given.type)
    return strict(given.type, [left, right], lambda a, b: f"({a} {operator} {b})", may_fail=fails)


def _regrouped(given: Given, operator: str, left: Term, right: Term) -> Term:
    """A sum or product of whole numbers as Spark groups it: what is written out comes last, and is one number."""
    kind = given.type
    terms = [part for term in (left, right) for part in _operands(term, operator)]
    if any(term.is_null for term in terms):
        return null(kind)
    values = [term.constant for term in terms if term.constant is not None]
    number = values[0] if values else None
    for value in values[1:]:
        number = folded_call(given.call, [number, value], kind) if number is not None else None
        if number is None:
            given.refuse("has numbers that are too large")
    others = [term for term in terms if term.constant is None]
    if number is not None and (number.value != (0 if operator == "+" else 1) or not others):
        others.append(constant(number))
    total = others[0]
    for term in others[1:]:
        total = strict(kind, [total, term], lambda a, b: f"({a} {operator} {b})", may_fail=True)
    return replace(total, operands=(operator, tuple(terms)))


def _operands(term: Term, operator: str) -> tuple[Term, ...]:
    return term.operands[1] if term.operands is not None and term.operands[0] == operator else (term,)


def division(operator: str, left: Term, right: Term) -> Term:
    """Spark looks at the divisor first, and at the dividend if that is not null."""
    sign = {"div": "//"}.get(operator, operator)
    divisor = right.constant.value if right.constant is not None else None
    overflows = operator == "div" and divisor in (None, -1)
    if isinstance(divisor, int | float) and divisor not in (0, -1):
        return strict(left.type, [right, left], lambda b, a: f"({a} {sign} {b})")

    def build(b: str, a: str) -> str:
        present = "" if left.constant is not None else f" AND {a} IS NOT NULL"
        # The smallest number by -1 leaves nothing, and would be too large on the way.
        small = f" WHEN {b} = -1 THEN {a} - {a}" if sign == "%" and is_integral(left.type) else ""
        return f"CASE WHEN {b} = 0{present} THEN {failure(ZERO)}{small} ELSE {a} {sign} {b} END"

    made = strict(left.type, [right, left], lambda b, a: f"({build(b, a)})", may_fail=True, cost=2, repeats=True)
    assert made.may_fail or overflows or made.is_null
    return made


@form("pmod")
def positive_remainder(given: Given) -> Term:
    """The remainder that is never negative, for divisors that are written out."""
    left, right = given.expect(2)
    divisor = given.whole(1)
    if divisor is None or divisor <= 0 or not is_integral(left.type):
        given.refuse("is in the verified set only with a positive number as the divisor")
    left, right = cast(left, given.type), cast(right, given.type)

    def build(a: str, b: str) -> str:
        return f"(CASE WHEN {a} % {b} < 0 THEN {a} % {b} + {b} ELSE {a} % {b} END)"

    return strict(given.type, [left, right], build, cost=3, repeats=True)


@form("negative", "positive")
def signed(given: Given) -> Term:
    (value,) = given.expect(1)
    value = cast(value, DOUBLE) if value.type == STRING else value
    if not (coercion.is_number(value.type) or is_interval(value.type)):
        given.refuse()
    if given.call.name == "positive":
        return value
    _check_digits(given, value)
    if is_integral(value.type) or is_interval(value.type):
        return strict(value.type, [value], lambda a: f"({whole(0, value.type)} - {a})", may_fail=True)
    return strict(value.type, [value], lambda a: f"(-({a}))")


def _check_digits(given: Given, value: Term) -> None:
    """Spark rounds to 34 digits when it changes the sign of a decimal."""
    if isinstance(value.type, Decimal) and value.type.precision > 34:
        given.refuse("has more than 34 digits")


@form("abs")
def absolute(given: Given) -> Term:
    (value,) = given.expect(1)
    value = cast(value, DOUBLE) if value.type == STRING else value
    if not coercion.is_number(value.type):
        given.refuse()
    _check_digits(given, value)
    return strict(value.type, [value], lambda a: f"abs({a})", may_fail=is_integral(value.type))


@form("&", "|", "^")
def bitwise(given: Given) -> Term:
    left, right = given.expect(2)
    kind = given.type
    if not (is_integral(left.type) and is_integral(right.type)):
        given.refuse()
    name = given.call.name
    left, right = cast(left, kind), cast(right, kind)
    return strict(kind, [left, right], lambda a, b: f"xor({a}, {b})" if name == "^" else f"({a} {name} {b})")


@form("~")
def bitwise_not(given: Given) -> Term:
    (value,) = given.expect(1)
    if not is_integral(value.type):
        given.refuse()
    return strict(value.type, [value], lambda a: f"(~({a}))")


@form("<<", ">>", ">>>", "shiftleft", "shiftright", "shiftrightunsigned")
def shifted(given: Given) -> Term:
    """Shifts by a number that is written out; as in Java, what is shifted beyond the end is lost."""
    value, _ = given.expect(2)
    count = given.whole(1)
    if count is None or not is_integral(value.type):
        given.refuse("is in the verified set only with a number that is written out")
    kind = BIGINT if value.type == BIGINT else INT
    bits = 64 if kind == BIGINT else 32
    count %= bits
    value = cast(value, kind)
    names = {"<<": "shiftleft", ">>": "shiftright", ">>>": "shiftrightunsigned"}
    name = names.get(given.call.name, given.call.name)
    wide, full = ("HUGEINT", 1 << 64) if kind == BIGINT else ("BIGINT", 1 << 32)

    def build(a: str) -> str:
        unsigned = f"(CAST({a} AS {wide}) & CAST({full - 1} AS {wide}))"
        if name == "shiftright" or (name == "shiftrightunsigned" and count == 0):
            return f"({a} >> {whole(count, kind)})"
        if name == "shiftrightunsigned":
            return f"CAST({unsigned} // CAST({1 << count} AS {wide}) AS {duckdb_type(kind)})"
        moved = f"(({unsigned} & CAST({(full >> count) - 1} AS {wide})) * CAST({1 << count} AS {wide}))"
        half, whole_range = f"CAST({full >> 1} AS {wide})", f"CAST({full} AS {wide})"
        return f"CAST(({moved} + {half}) % {whole_range} - {half} AS {duckdb_type(kind)})"

    return strict(kind, [value], build, cost=3)


@form("greatest", "least")
def extreme(given: Given) -> Term:
    if len(given.arguments) < 2:
        given.refuse()
    kind = given.type
    if not (coercion.is_number(kind) or coercion.is_datetime(kind) or kind == STRING):
        given.refuse()
    terms = [cast(term, kind) for term in given.arguments]
    fails, cost = any(term.may_fail for term in terms), 1 + sum(term.cost for term in terms)
    if kind not in (DOUBLE, FLOAT):
        return Term(f"{given.call.name}({', '.join(term.sql for term in terms)})", kind, fails, cost)
    # DuckDB forgets the sign of zero.
    best = terms[0]
    for term in terms[1:]:
        best = Term(
            _better(best, term, ">" if given.call.name == "greatest" else "<"), kind, fails, best.cost + term.cost + 3
        )
    return best


def _better(one: Term, other: Term, operator: str) -> str:
    def choose(a: str, b: str) -> str:
        return f"(CASE WHEN {a} IS NULL OR {b} {operator} {a} THEN {b} ELSE {a} END)"

    return let(one, lambda a: let(other, lambda b: choose(a, b)))
