"""The text of a query → its tree.

luqum reads the language of Lucene. Most stored queries are a few words and phrases, maybe with AND between them; reading
these takes a fifth of the time without it, and comes to the same.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from luqum import tree as syntax
from luqum.exceptions import IllegalCharacterError, ParseError
from luqum.thread import parse as parse_syntax

from riverrun.errors import Invalid, did_you_mean
from riverrun.search.fields import EXAMPLES, NOT_A_VALUE, SearchField, SearchFields
from riverrun.search.tree import AllOf, AnyOf, Negation, QueryPattern, QueryPhrase, QueryRange, QueryTerm, QueryTree
from riverrun.search.words import Analyzer, plain

LONGEST = 10_000
DEEPEST = 60
FARTHEST = 10_000

_ITEM = r'(?!(?:AND|OR|NOT|TO)\b)\w+|"[^"\\]*"'
_PLAIN = re.compile(rf"\s*(?:{_ITEM})(?:\s+(?:AND\s+)?(?:{_ITEM}))*\s*")
_ITEMS = re.compile(r'"[^"]*"|\w+')
_WILD = re.compile(r"(?<!\\)(?:\\\\)*[*?]")
_ESCAPED = re.compile(r"\\(.)")
_PLACE = re.compile(r"(?:unexpected +'?(?P<what>.*?)'? )?at position (?P<at>\d+)")
_SIGNS = {"&&": "AND", "||": "OR"}


class QueryError(Invalid):
    """A query that cannot be read; the message shows the place."""


def parse_query(text: str, fields: SearchFields, analyzer: Analyzer) -> QueryTree:
    """The tree of a query over these columns, or a `QueryError`."""
    reading = _QueryReading(text, fields, analyzer)
    tree = reading.quick() if _PLAIN.fullmatch(text) and len(text) <= LONGEST else reading.whole()
    if tree is None:
        raise reading.error("has no words", 0)
    return tree


def _joined(kind: type[AllOf | AnyOf], parts: Sequence[QueryTree | None]) -> QueryTree | None:
    """Parts that hold together; one without any word says nothing."""
    said = [part for part in parts if part is not None]
    if len(said) < 2:
        return said[0] if said else None
    flat: list[QueryTree] = []
    for part in said:
        flat.extend(part.parts if isinstance(part, kind) else [part])
    return kind(tuple(dict.fromkeys(flat)))


@dataclass(frozen=True)
class _QueryReading:
    """One text on its way to a tree."""

    text: str
    fields: SearchFields
    analyzer: Analyzer

    def error(self, why: str, at: int, hint: str | None = None) -> QueryError:
        """An error with the line of the query below it, and a mark under the place."""
        start = max(at - 40, 0)
        line = " ".join(self.text[start : start + 80].splitlines()) if self.text.strip() else ""
        shown = f"\n  {line}\n  {' ' * (at - start)}^" if line else ""
        said = f"the query {why}. {hint}" if hint else f"the query {why}"
        return QueryError(said + shown)

    def quick(self) -> QueryTree | None:
        """The tree of words and phrases, all of which must occur."""
        items = [item for item in _ITEMS.findall(self.text) if item != "AND"]
        return _joined(AllOf, [self._words(item.strip('"'), None) for item in items])

    def whole(self) -> QueryTree | None:
        """The tree of any query."""
        if not self.text.strip():
            return None
        if len(self.text) > LONGEST:
            raise self.error(f"is longer than {LONGEST} characters", 0)
        try:
            tree = parse_syntax(self.text)
        except IllegalCharacterError as error:
            raise self.error(*self._blamed(str(error), "has a character that does not fit")) from None
        except (ParseError, RecursionError) as error:
            raise self.error(*self._blamed(str(error), "cannot be read")) from None
        return self._read(tree, None, 0)

    def _blamed(self, said: str, what: str) -> tuple[str, int]:
        """What luqum said, and where."""
        found = _PLACE.search(said)
        if not found:
            return "ends too early", len(self.text.rstrip())
        name = found["what"]
        return (f"{what}: {name!r}" if name else what), int(found["at"])

    def _read(self, node: syntax.Item, field: SearchField | None, depth: int) -> QueryTree | None:
        if depth > DEEPEST:
            raise self.error(f"is nested deeper than {DEEPEST} levels", node.pos)
        return self._one(node, field, depth + 1)

    def _one(self, node: syntax.Item, field: SearchField | None, depth: int) -> QueryTree | None:
        match node:
            case syntax.Word():
                return self._word(node, field)
            case syntax.Phrase():
                return self._phrase(node, field, None)
            case syntax.Proximity():
                return self._near(node, field)
            case syntax.AndOperation() | syntax.UnknownOperation() | syntax.BoolOperation():
                return _joined(AllOf, [self._read(part, field, depth) for part in node.children])
            case syntax.OrOperation():
                for part in node.children:
                    if isinstance(part, syntax.Plus):
                        raise self.error("has + beside OR", part.pos, "Write AND for what must occur")
                return _joined(AnyOf, [self._read(part, field, depth) for part in node.children])
            case syntax.Not() | syntax.Prohibit():
                if field is not None and field.kind != "text" and isinstance(node, syntax.Prohibit):
                    return self._value(node, field)
                part = self._read(node.children[0], field, depth)
                return None if part is None else part.part if isinstance(part, Negation) else Negation(part)
            case syntax.Plus() | syntax.Group() | syntax.FieldGroup():
                return self._read(node.children[0], field, depth)
            case syntax.SearchField():
                if field is not None:
                    raise self.error("names a column inside another", node.pos)
                return self._read(node.children[0], self._field(node), depth)
            case syntax.Range():
                return self._range(node, field, node.low, node.high, node.include_low, node.include_high)
            case syntax.From():
                return self._range(node, field, node.children[0], None, node.include, True)
            case syntax.To():
                return self._range(node, field, None, node.children[0], True, node.include)
            case syntax.Fuzzy():
                hint = 'Words are compared as they are; use * and ?, or stem=. "two words"~3 is about distance'
                raise self.error("has ~ behind a word", node.pos, hint)
            case syntax.Boost():
                raise self.error("has ^, and a stored search has no rank", node.pos, "Leave it out")
            case syntax.Regex():
                raise self.error("has a regular expression", node.pos, "Use * and ?")
        raise self.error(f"has something unknown: {type(node).__name__}", node.pos)

    def _field(self, node: syntax.SearchField) -> SearchField:
        found = self.fields.by_name.get(node.name.lower())
        if found is None:
            hint = did_you_mean(node.name, [field.name for field in self.fields.fields])
            raise self.error(
                f"names a column {node.name!r} that rows do not have, or that cannot be searched", node.pos, hint
            )
        return found

    def _word(self, node: syntax.Word, field: SearchField | None) -> QueryTree | None:
        if field is not None and field.kind != "text":
            return self._value(node, field)
        if node.value in _SIGNS or node.value.startswith("!"):
            raise self.error(f"has {node.value!r}", node.pos, f"Write {_SIGNS.get(node.value, 'NOT')}")
        if _WILD.search(node.value):
            return self._pattern(node, field)
        return self._words(_ESCAPED.sub(r"\1", node.value), field)

    def _pattern(self, node: syntax.Word, field: SearchField | None) -> QueryTree:
        if "\\" in node.value:
            raise self.error("has \\ in a word with * or ?", node.pos, "A word has no such characters: leave it out")
        pattern = plain(node.value, self.analyzer.fold)
        letters = re.sub(r"[*?]+", "", node.value)
        if letters and self.analyzer.words(letters) != [letters]:
            raise self.error(
                "has * or ? in what is not one word", node.pos, "Write the words apart: e-mai* is e AND mai*"
            )
        return QueryPattern(field.name if field else None, re.sub(r"\*+", "*", pattern))

    def _words(self, text: str, field: SearchField | None, near: int | None = None) -> QueryTree | None:
        """One word, or several that stand together: `e-mail` is a phrase."""
        words = self.analyzer.terms(text)
        name = field.name if field else None
        if len(words) < 2:
            return QueryTerm(name, words[0]) if words else None
        return QueryPhrase(name, tuple(words), near or None)

    def _phrase(self, node: syntax.Phrase, field: SearchField | None, near: int | None) -> QueryTree | None:
        if field is not None and field.kind != "text":
            return self._value(node, field)
        return self._words(_ESCAPED.sub(r"\1", node.value[1:-1]), field, near)

    def _near(self, node: syntax.Proximity, field: SearchField | None) -> QueryTree | None:
        if field is not None and field.kind != "text":
            raise self.error(f"looks for words in {field.name}, which is no text", node.pos)
        if not 0 <= node.degree <= FARTHEST or node.degree != int(node.degree):
            raise self.error(f"has a distance that is not between 0 and {FARTHEST}", node.pos)
        return self._phrase(node.children[0], field, int(node.degree))

    def _value(self, node: syntax.Item, field: SearchField) -> QueryTree:
        """A column that is no text has a value."""
        if str(node).strip() == "*":
            return QueryRange(field.name, *field.closed(None, None, True, True))
        return self._range(node, field, node, node, True, True)

    def _range(
        self,
        node: syntax.Item,
        field: SearchField | None,
        low: syntax.Item | None,
        high: syntax.Item | None,
        with_low: bool,
        with_high: bool,
    ) -> QueryTree:
        if field is None or field.kind == "text":
            what = "without a column" if field is None else f"of {field.name}, which is text"
            raise self.error(f"has a range {what}", node.pos, "Ranges are for numbers and times: price:[1 TO 9]")
        least, most = _bound(low), _bound(high)
        for bound, part in ((least, low), (most, high)):
            self._check(field, bound, node if part is None else part)
        return QueryRange(field.name, *field.closed(least, most, with_low, with_high))

    def _check(self, field: SearchField, bound: str | None, node: syntax.Item) -> None:
        try:
            field.closed(bound, None, True, True)
        except NOT_A_VALUE:
            why = f"compares {field.name} with {bound!r}"
            raise self.error(why, node.pos, f"It is written like {EXAMPLES[field.kind]}") from None


def _bound(node: syntax.Item | None) -> str | None:
    """The text of a bound; * is none."""
    if node is None:
        return None
    text = str(node).strip().strip('"')
    return None if text == "*" else _ESCAPED.sub(r"\1", text)
