"""Functions of strings. A character is a code point: neither half of a surrogate pair, nor more than one."""

from __future__ import annotations

from riverrun.ddl import Array
from riverrun.expressions.casts import argument, cast
from riverrun.expressions.forms import Given, form
from riverrun.expressions.term import Term, eager, let, strict, string, unskipped
from riverrun.flow.schema import BIGINT, BINARY, BOOLEAN, INT, STRING
from riverrun.flow.syntax import VOID

_LONGEST = 2_147_483_647  # characters of a string


def _text(given: Given, index: int) -> Term:
    return argument(given, index, STRING)


def in_ascii(value: str) -> str:
    """Whether a string has as many bytes as characters."""
    return f"strlen({value}) = length({value})"


def case_mapped(name: str, term: Term) -> Term:
    """Upper or lower case: DuckDB's rules for ASCII, Spark's for everything else."""

    def build(a: str) -> str:
        return f"(CASE WHEN {in_ascii(a)} THEN {name}({a}) ELSE spark_{name}({a}) END)"

    return strict(STRING, [term], build, cost=10, repeats=True)


@form("upper", "ucase", "lower", "lcase")
def changed_case(given: Given) -> Term:
    given.expect(1)
    return case_mapped({"ucase": "upper", "lcase": "lower"}.get(given.call.name, given.call.name), _text(given, 0))


@form("length", "len", "char_length", "character_length", "octet_length", "bit_length")
def length(given: Given) -> Term:
    (value,) = given.expect(1)
    if value.type == BINARY:
        given.refuse()
    counts = {"octet_length": "strlen({})", "bit_length": "strlen({}) * 8"}
    count = counts.get(given.call.name, "length({})")
    return strict(INT, [_text(given, 0)], lambda a: f"CAST({count.format(a)} AS INTEGER)", cost=2)


@form("concat", "||")
def concatenated(given: Given) -> Term:
    if not given.arguments or any(isinstance(t.type, Array) or t.type == BINARY for t in given.arguments):
        given.refuse()
    terms = [_text(given, index) for index in range(len(given.arguments))]
    return unskipped(STRING, terms, lambda *parts: f"({' || '.join(parts)})", cost=2)


@form("concat_ws")
def joined(given: Given) -> Term:
    """The strings that are not null, with something between them."""
    if len(given.arguments) < 2 or any(isinstance(term.type, Array) for term in given.arguments):
        given.refuse()
    terms = [_text(given, index) for index in range(len(given.arguments))]
    if terms[0].constant is None or terms[0].is_null:
        given.refuse("is in the verified set only with a literal between the strings")
    return eager(STRING, terms, lambda *parts: f"concat_ws({', '.join(parts)})", cost=4)


@form("substring", "substr")
def substring(given: Given) -> Term:
    value, *_ = given.expect(2, 3)
    if value.type == BINARY:
        given.refuse()
    position = argument(given, 1, INT)
    count = argument(given, 2, INT) if len(given.arguments) == 3 else None
    terms = [_text(given, 0), position, *([] if count is None else [count])]
    first, size = given.whole(1), given.whole(2)
    if first is not None and first >= 0 and (count is None or (size is not None and size >= 0)):
        return strict(STRING, terms, lambda a, *_: _cut(a, max(first, 1), size), cost=4)

    def build(a: str, start: str, *counts: str) -> str:
        before = (
            f"CASE WHEN {start} > 0 THEN CAST({start} AS BIGINT) - 1 WHEN {start} < 0 THEN length({a}) + {start} END"
        )
        first = Term(f"CASE WHEN {start} = 0 THEN CAST(0 AS BIGINT) ELSE {before} END", BIGINT, cost=10)
        size = counts[0] if counts else str(_LONGEST)
        return let(first, lambda at: _between(a, at, Term(f"({at} + {size})", BIGINT, cost=10)))

    return strict(STRING, terms, build, cost=12, repeats=True)


def _between(value: str, first: str, end: Term) -> str:
    """The characters from one number to another, counted from 0; those before 0 are not there."""
    return let(
        end,
        lambda to: (
            f"CASE WHEN {value} IS NULL THEN NULL WHEN {to} <= {first} OR {to} <= 0 THEN ''"
            f" ELSE substring({value}, {_natural(first)} + 1, {to} - {_natural(first)}) END"
        ),
    )


def _natural(number: str) -> str:
    """The number, or 0 if it is negative."""
    return f"CASE WHEN {number} < 0 THEN 0 ELSE {number} END"


def _cut(value: str, first: int, size: int | None) -> str:
    return f"substring({value}, {first})" if size is None else f"substring({value}, {first}, {size})"


@form("left", "right")
def end_of_string(given: Given) -> Term:
    value, _ = given.expect(2)
    if value.type == BINARY:
        given.refuse()
    name = given.call.name
    return strict(
        STRING, [_text(given, 0), argument(given, 1, INT)], lambda a, n: f"{name}({a}, {_natural(n)})", cost=4
    )


@form("replace")
def replaced(given: Given) -> Term:
    given.expect(2, 3)
    terms = [_text(given, index) for index in range(len(given.arguments))]
    return strict(STRING, terms, lambda a, b, c="''": f"replace({a}, {b}, {c})", cost=6)


@form("translate")
def translated(given: Given) -> Term:
    """Characters replaced by others; both lists written out, without repetitions."""
    given.expect(3)
    before, after = given.text(1), given.text(2)
    if len(set(before)) != len(before) or "\0" in after:
        given.refuse()
    terms = [_text(given, index) for index in range(3)]
    return strict(STRING, terms, lambda a, b, c: f"translate({a}, {b}, {c})", cost=8)


@form("lpad", "rpad")
def padded(given: Given) -> Term:
    value, *_ = given.expect(2, 3)
    if value.type == BINARY:
        given.refuse()
    pad = given.text(2) if len(given.arguments) == 3 else " "
    if pad == "" or (given.whole(1) or 0) > 1_000_000:
        given.refuse()
    name = given.call.name
    return strict(
        STRING,
        [_text(given, 0), argument(given, 1, INT)],
        lambda a, n: f"{name}({a}, {_natural(n)}, {string(pad)})",
        cost=8,
    )


@form("repeat")
def repeated(given: Given) -> Term:
    given.expect(2)
    if given.whole(1) is None:
        given.refuse("is in the verified set only with a number that is written out")
    return strict(STRING, [_text(given, 0), argument(given, 1, INT)], lambda a, n: f"repeat({a}, {n})", cost=6)


@form("trim", "btrim", "ltrim", "rtrim")
def trimmed(given: Given) -> Term:
    """Only blanks are trimmed, or the characters that are given; other white space stays."""
    given.expect(1, 2)
    name = {"btrim": "trim"}.get(given.call.name, given.call.name)
    if len(given.arguments) == 1:
        return strict(STRING, [_text(given, 0)], lambda a: f"{name}({a}, ' ')", cost=4)
    return strict(STRING, [_text(given, 0), _text(given, 1)], lambda a, b: f"{name}({a}, {b})", cost=6)


_TESTS = {
    "startswith": "starts_with",
    "endswith": "ends_with",
    "contains": "contains",
}


@form(*_TESTS)
def tested(given: Given) -> Term:
    one, other = given.expect(2)
    if BINARY in (one.type, other.type):
        given.refuse()
    name = _TESTS[given.call.name]
    return strict(BOOLEAN, [_text(given, 0), _text(given, 1)], lambda a, b: f"{name}({a}, {b})", cost=3)


@form("instr")
def position(given: Given) -> Term:
    given.expect(2)
    return strict(INT, [_text(given, 0), _text(given, 1)], lambda a, b: f"CAST(instr({a}, {b}) AS INTEGER)", cost=4)


@form("locate", "position")
def located(given: Given) -> Term:
    """Where a string has another one, from a position on that is written out."""
    given.expect(2, 3)
    start = given.whole(2) if len(given.arguments) == 3 else 1
    if start is None:
        given.refuse("is in the verified set only with a number that is written out")
    terms = [_text(given, 0), _text(given, 1)]
    if start == 1:
        return strict(INT, terms, lambda b, a: f"CAST(instr({a}, {b}) AS INTEGER)", cost=4, reordered=True)
    if start < 1 or any(term.may_fail for term in terms):
        given.refuse()

    def build(b: str, a: str) -> str:
        found = f"instr(substring({a}, {start}), {b})"
        inside = f"length({a}) >= {start}"
        there = f"WHEN {inside} AND {found} > 0 THEN {found} + {start - 1}"
        return f"CAST(CASE WHEN {b} = '' THEN 1 {there} ELSE 0 END AS INTEGER)"

    def guarded(b: str, a: str) -> str:
        return f"CASE WHEN {a} IS NULL OR {b} IS NULL THEN NULL ELSE {build(b, a)} END"

    return strict(INT, terms, guarded, cost=10, repeats=True)


@form("reverse")
def reversed_string(given: Given) -> Term:
    (value,) = given.expect(1)
    if isinstance(value.type, Array):
        given.refuse()

    def build(a: str) -> str:
        odd = f"array_to_string(list_reverse(regexp_extract_all({a}, '(?s).')), '')"
        return f"(CASE WHEN {in_ascii(a)} THEN reverse({a}) ELSE {odd} END)"

    return strict(STRING, [_text(given, 0)], build, cost=12, repeats=True)


@form("ascii")
def first_code(given: Given) -> Term:
    given.expect(1)
    return strict(INT, [_text(given, 0)], lambda a: f"CAST(ascii({a}) AS INTEGER)")


@form("chr", "char")
def character(given: Given) -> Term:
    given.expect(1)
    code = argument(given, 0, BIGINT)

    def build(a: str) -> str:
        return f"(CASE WHEN {a} < 0 THEN '' ELSE chr(CAST({a} & 255 AS INTEGER)) END)"

    return strict(STRING, [code], build, cost=3, repeats=True)


@form("split_part")
def part(given: Given) -> Term:
    """A part between delimiters, counted from 1, or from the end with a negative number."""
    given.expect(3)
    delimiter, number = given.text(1), given.whole(2)
    if delimiter == "" or number is None or number == 0:
        given.refuse("is in the verified set only with a delimiter and a number that are written out")
    return strict(STRING, [_text(given, 0)], lambda a: f"split_part({a}, {string(delimiter)}, {number})", cost=10)


@form("md5", "sha", "sha1")
def digest(given: Given) -> Term:
    (value,) = given.expect(1)
    name = {"sha": "sha1"}.get(given.call.name, given.call.name)
    return strict(STRING, [_bytes(given, value)], lambda a: f"{name}({a})", cost=20)


@form("sha2")
def sha2(given: Given) -> Term:
    value, _ = given.expect(2)
    if given.whole(1) not in (0, 256):
        given.refuse("is in the verified set only with 256 bits")
    return strict(STRING, [_bytes(given, value)], lambda a: f"sha256({a})", cost=20)


def _bytes(given: Given, value: Term) -> Term:
    """A string or bytes; both have the same digest."""
    if value.type not in (STRING, BINARY, VOID):
        given.refuse(f"has {value.type} where bytes are expected")
    return cast(value, BINARY) if value.type == VOID else value


@form("hex")
def hexadecimal(given: Given) -> Term:
    (value,) = given.expect(1)
    if value.type in (STRING, BINARY):
        return strict(STRING, [value], lambda a: f"hex({a})", cost=6)
    return strict(STRING, [argument(given, 0, BIGINT)], lambda a: f"hex({a})", cost=6)


@form("base64")
def base64(given: Given) -> Term:
    """In lines of 76 characters."""
    (value,) = given.expect(1)
    value = _bytes(given, value)

    def build(a: str) -> str:
        lines = f"rtrim(regexp_replace(base64({a}), '(.{{76}})', '\\1' || chr(13) || chr(10), 'g'), chr(13) || chr(10))"
        return f"(CASE WHEN octet_length({a}) <= 57 THEN base64({a}) ELSE {lines} END)"

    return strict(STRING, [cast(value, BINARY)], build, cost=10, repeats=True)
