"""LIKE and regular expressions, with patterns that are written out."""

from __future__ import annotations

from riverrun.expressions import casing, regex
from riverrun.expressions.casts import argument
from riverrun.expressions.forms import Given, form
from riverrun.expressions.regex import LINE_ENDS, Pattern, Unmatched
from riverrun.expressions.strings import case_mapped
from riverrun.expressions.term import Term, strict, string
from riverrun.flow.schema import BOOLEAN, STRING

ANY, ONE = object(), object()
"""The wildcards of LIKE."""


@form("like", "ilike")
def like(given: Given) -> Term:
    given.expect(2, 3)
    escape = given.text(2) if len(given.arguments) == 3 else "\\"
    pattern = given.text(1)
    value = argument(given, 0, STRING)
    if len(escape) != 1 or escape in "%_":
        given.refuse()
    if given.call.name == "ilike":
        value, pattern = case_mapped("lower", value), casing.lower(pattern)
        escape = escape if escape == "\\" else given.refuse()
    parts = _parts(given, pattern, escape)
    return strict(BOOLEAN, [value], lambda a: _like(a, parts), cost=5, repeats=True)


def _parts(given: Given, pattern: str, escape: str) -> list[object]:
    """Strings and wildcards in turn."""
    parts: list[object] = []
    letters = iter(pattern)
    for letter in letters:
        if letter == escape:
            part: object = next(letters, None)
            if part not in ("%", "_", escape):
                given.refuse("escapes a character that needs no escape")
        else:
            part = {"%": ANY, "_": ONE}.get(letter, letter)
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        elif part is not ANY or parts[-1:] != [ANY]:
            parts.append(part)
    return parts


def _like(value: str, parts: list[object]) -> str:
    match parts:
        case []:
            return f"({value} = '')"
        case [str(text)]:
            return f"({value} = {string(text)})"
        case [str(text), end] if end is ANY:
            return f"starts_with({value}, {string(text)})"
        case [begin, str(text)] if begin is ANY:
            return f"ends_with({value}, {string(text)})"
        case [begin, str(text), end] if begin is ANY and end is ANY:
            return f"contains({value}, {string(text)})"
    pattern = "".join("%" if part is ANY else "_" if part is ONE else _escaped(str(part)) for part in parts)
    return f"({value} LIKE {string(pattern)} ESCAPE '\\')"


def _escaped(text: str) -> str:
    for special in ("\\", "%", "_"):
        text = text.replace(special, "\\" + special)
    return text


def _pattern(given: Given, index: int) -> Pattern:
    try:
        return regex.compile_pattern(given.text(index))
    except Unmatched as error:
        given.refuse(f"has a pattern that is not in the verified set: {error}")


def _either(value: str, pattern: Pattern, here: str, there: str) -> str:
    """`there` for strings that end with a line break, if the pattern asks for the end."""
    if not pattern.ends:
        return here
    breaks = ", ".join(string(end) for end in LINE_ENDS)
    return f"(CASE WHEN right({value}, 1) IN ({breaks}) THEN {there} ELSE {here} END)"


@form("rlike", "regexp", "regexp_like")
def matches(given: Given) -> Term:
    given.expect(2)
    pattern = _pattern(given, 1)

    def build(a: str) -> str:
        here = f"regexp_matches({a}, {string(pattern.re2)})"
        return _either(a, pattern, here, f"spark_matches({a}, {string(pattern.python)})")

    return strict(BOOLEAN, [argument(given, 0, STRING)], build, cost=20, repeats=pattern.ends)


@form("regexp_extract")
def extracted(given: Given) -> Term:
    """A group of the first match; an empty string where there is none."""
    given.expect(2, 3)
    pattern = _pattern(given, 1)
    group = given.whole(2) if len(given.arguments) == 3 else 1
    if group is None or not 0 <= group <= min(pattern.groups, 9):
        given.refuse("has no such group")

    def build(a: str) -> str:
        here = f"regexp_extract({a}, {string(pattern.re2)}, {group})"
        return _either(a, pattern, here, f"spark_extract({a}, {string(pattern.python)}, {group})")

    return strict(STRING, [argument(given, 0, STRING)], build, cost=20, repeats=pattern.ends)


@form("regexp_replace")
def replaced(given: Given) -> Term:
    """Every match replaced."""
    given.expect(3)
    pattern = _pattern(given, 1)
    if pattern.empty:
        given.refuse("has a pattern that matches nothing, too")
    try:
        re2, python = regex.replacement(given.text(2), pattern.groups)
    except Unmatched as error:
        given.refuse(f"has a replacement that is not in the verified set: {error}")

    def build(a: str) -> str:
        here = f"regexp_replace({a}, {string(pattern.re2)}, {string(re2)}, 'g')"
        return _either(a, pattern, here, f"spark_replace({a}, {string(pattern.python)}, {string(python)})")

    return strict(STRING, [argument(given, 0, STRING)], build, cost=20, repeats=pattern.ends)


@form("split")
def split(given: Given) -> Term:
    """The parts between delimiters, where the pattern is a plain string."""
    given.expect(2)
    delimiter = _plain(given.text(1))
    if not delimiter:
        given.refuse("is in the verified set only with a pattern that is a plain string")
    return strict(
        given.type, [argument(given, 0, STRING)], lambda a: f"string_split({a}, {string(delimiter)})", cost=20
    )


def _plain(pattern: str) -> str | None:
    """The string that is all that a pattern matches."""
    text, escaped = "", False
    for letter in pattern:
        if escaped:
            if letter.isalnum() or not letter.isascii():
                return None
            text, escaped = text + letter, False
        elif letter == "\\":
            escaped = True
        elif letter in ".[]{}()*+?^$|":
            return None
        else:
            text += letter
    return None if escaped else text
