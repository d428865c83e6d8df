"""Spark's grammar of expressions: what a text means, with Spark's precedence of operators.

The general SQL parser that `flow/text.py` asks where columns are reads many dialects, and groups some operators in
another way than Spark does: `s || a + b` is `(s || a) + b` in Spark. Where the meaning counts, this one is asked. Words
that it does not know raise `UnknownSyntax`; they are left to Spark.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from riverrun import ddl
from riverrun.flow import literals
from riverrun.flow.lexer import unescaped
from riverrun.flow.schema import BOOLEAN, STRING
from riverrun.flow.syntax import VOID, Call, Cast, Constant, Field, Lambda, Name, Tree
from riverrun.flow.text import cleaned
from riverrun.flow.word_cursor import WordCursor

# From what binds least to what binds most. Operators of one line are applied from left to right.
_LEVELS = (
    ("=", "<>", "<", "<=", ">", ">=", "<=>"),
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>", ">>>"),
    ("+", "-", "||"),
    ("*", "/", "%", "div"),
)
_UNITS = (
    *("year", "quarter", "month", "week", "day", "dayofyear"),
    *("hour", "minute", "second", "millisecond", "microsecond"),
)
_BY_UNIT = {
    **dict.fromkeys(("timestampadd", "dateadd", "date_add"), "timestampadd"),
    **dict.fromkeys(("timestampdiff", "datediff", "date_diff", "timediff"), "timestampdiff"),
}
_TYPED = ("date", "timestamp", "timestamp_ltz", "timestamp_ntz", "x")
_INTERVAL_UNITS = (
    *("year", "quarter", "month", "week", "day", "dayofyear"),
    *("hour", "minute", "second", "millisecond", "microsecond"),
)


@lru_cache(maxsize=4096)
def parse(sql: str) -> Tree:
    """The expression that a text is."""
    parser = _Parser(cleaned(sql))
    try:
        tree = parser.expression()
    except RecursionError:  # whoever asks may be deep in calls himself
        parser.too_deep("it is nested too deep")
    if parser.kind != "end":
        parser.fail()
    return tree


class _Parser(WordCursor):
    def call(self, start: int, name: str, *arguments: Tree) -> Call:
        return Call(name, arguments, self.since(start))

    def expression(self) -> Tree:
        return self.joined("or", lambda: self.joined("and", self.negated))

    def joined(self, operator: str, operand: Callable[[], Tree]) -> Tree:
        found = [(self.next, operand(), self.next)]  # each with where it begins and ends
        while self.took(operator):
            found.append((self.next, operand(), self.next))
        return self.halved(operator, found)

    def negated(self) -> Tree:
        start = self.next
        while self.took("not", "!"):
            self.counted(self.next - start)
        inner = self.next
        tree = self.predicate(inner, self.value())
        for place in range(inner - 1, start - 1, -1):
            tree = self.call(place, "not", tree)
        return tree

    def predicate(self, start: int, tree: Tree) -> Tree:
        """A comparison by words, after the value that it is about; there is at most one."""
        if self.took("is"):
            return self.test(start, tree)
        negative = bool(self.took("not"))
        match self.took("between", "in", "like", "ilike", "rlike", "regexp"):
            case "between":
                low = self.value()
                self.expect("and")
                made = self.call(start, "between", tree, low, self.value())
            case "in":
                self.expect("(")
                made = self.call(start, "in", tree, *self.listed())
            case "like" | "ilike" as name:
                if self.at("any", "some", "all"):
                    self.fail()
                made = self.call(start, name, tree, self.value())
                if self.took("escape"):
                    made = self.call(start, name, *made.arguments, self.string())
            case "rlike" | "regexp":
                made = self.call(start, "rlike", tree, self.value())
            case _:
                if negative:
                    self.fail()
                return tree
        return self.call(start, "not", made) if negative else made

    def test(self, start: int, tree: Tree) -> Tree:
        negative = bool(self.took("not"))
        match self.took("null", "unknown", "true", "false", "distinct"):
            case "null":
                return self.call(start, "isnotnull" if negative else "isnull", tree)
            case "unknown":
                made = self.call(start, "isnull", Cast(tree, BOOLEAN, text=tree.text))
            case "true" | "false" as truth:
                made = self.call(start, "<=>", tree, Constant(BOOLEAN, truth == "true", truth))
            case "distinct":
                self.expect("from")
                negative = not negative
                made = self.call(start, "<=>", tree, self.value())
            case _:
                self.fail()
        return self.call(start, "not", made) if negative else made

    def value(self, level: int = 0) -> Tree:
        if level == len(_LEVELS):
            return self.signed()
        start, tree, links = self.next, self.value(level + 1), 0
        while operator := self.took(*_LEVELS[level]):
            links += 1
            self.counted(links)
            right = self.value(level + 1)
            if operator == "<>":
                tree = self.call(start, "not", self.call(start, "=", tree, right))
            else:
                tree = self.call(start, operator, tree, right)
        return tree

    def signed(self) -> Tree:
        start = self.next
        sign = self.took("-", "+", "~")
        if sign is None:
            return self.chained()
        if sign == "-" and self.kind == "number":  # the sign belongs to the number: -2147483648 is an int
            self.next += 1
            return literals.number("-" + self.words[self.next - 1].text, self.since(start))
        name = {"-": "negative", "+": "positive", "~": "~"}[sign]
        self.deeper()
        tree = self.call(start, name, self.signed())
        self.depth -= 1
        return tree

    def chained(self) -> Tree:
        """A value with what is asked of it: its fields, elements, another type."""
        self.deeper()
        start, tree, links = self.next, self.primary(), 0
        while mark := self.took(".", "[", "::"):
            links += 1
            self.counted(links)
            if mark == "[":
                index = self.value()
                self.expect("]")
                tree = self.call(start, "[]", tree, index)
            elif mark == "::":
                made = self.type_until(None)
                tree = Cast(tree, made, text=self.since(start))
            elif self.kind in ("word", "quoted"):
                name = self.identifier()
                if isinstance(tree, Name):
                    tree = Name((*tree.parts, name), self.since(start))
                else:
                    tree = Field(tree, name, self.since(start))
            else:
                self.fail()
        self.depth -= 1
        return tree

    def primary(self) -> Tree:  # noqa: RET503  # `fail` does not return
        start = self.next
        match self.kind:
            case "string":
                return self.string()
            case "number":
                self.next += 1
                return literals.number(self.words[start].text, self.since(start))
            case "quoted":
                return Name((self.identifier(),), self.since(start))
            case "mark" if self.took("("):
                return self.parenthesized(start)
            case "word":
                return self.named(start)
        self.fail()

    def string(self) -> Constant:
        """A string; several in a row are one."""
        start, whole = self.next, ""
        while self.kind == "string":
            whole += unescaped(self.word.text)
            self.next += 1
        if self.next == start:
            self.fail()
        return Constant(STRING, whole, self.since(start))

    def parenthesized(self, start: int) -> Tree:
        ahead = 1
        while self.at(",", ahead=ahead):
            ahead += 2
        if ahead > 1 and self.at(")", ahead=ahead) and self.at("->", ahead=ahead + 1):
            names = [self.identifier()]
            while self.took(","):
                names.append(self.identifier())
            self.expect(")")
            self.expect("->")
            return Lambda(tuple(name.lower() for name in names), self.expression(), self.since(start))
        tree = self.expression()
        self.expect(")")
        return tree

    def named(self, start: int) -> Tree:
        """A value that begins with a word."""
        text = self.word.text
        following = self.words[self.next + 1]
        if text == "case":
            self.next += 1
            return self.choice(start)
        if self.at("(", ahead=1):
            self.next += 2
            return self.function(start, text)
        if self.at("->", ahead=1):
            self.next += 2
            return Lambda((text,), self.expression(), self.since(start))
        if text in _TYPED and following.kind == "string":
            self.next += 2
            return literals.typed(text, unescaped(following.text), self.since(start))
        if text == "interval" and (following.kind in ("number", "string") or following.text in ("-", "+")):
            return self.interval(start)
        name = self.identifier()
        match text:
            case "null":
                return Constant(VOID, None, name)
            case "true" | "false":
                return Constant(BOOLEAN, text == "true", name)
        return Name((name,), name)

    def interval(self, start: int) -> Constant:
        self.next += 1
        pieces: list[tuple[str, str, str]] = []
        while not pieces or self.more_of_interval():
            sign = self.took("-", "+") or "+"
            amount = unescaped(self.word.text) if self.kind == "string" else self.word.text
            self.next += 1
            unit = self.identifier().lower().removesuffix("s")
            if unit not in _INTERVAL_UNITS or self.at("to"):
                self.fail()
            pieces.append((sign, amount, unit))
        return literals.interval(pieces, self.since(start))

    def more_of_interval(self) -> bool:
        at = self.next + bool(self.at("-", "+"))
        unit = self.words[min(at + 1, len(self.words) - 1)].text.removesuffix("s")
        return self.words[at].kind in ("number", "string") and unit in _INTERVAL_UNITS

    def choice(self, start: int) -> Tree:
        """CASE: conditions and values in turn, and what else."""
        subject = None if self.at("when") else self.expression()
        parts: list[Tree] = []
        while self.took("when"):
            at = self.next
            condition = self.expression()
            if subject is not None:
                condition = Call("=", (subject, condition), f"({subject.text}) = ({self.since(at)})")
            self.expect("then")
            parts += [condition, self.expression()]
        if not parts:
            self.fail()
        if self.took("else"):
            parts.append(self.expression())
        self.expect("end")
        return self.call(start, "case", *parts)

    def listed(self) -> list[Tree]:
        """Arguments up to the closing bracket."""
        arguments: list[Tree] = []
        if self.took(")"):
            return arguments
        while True:
            arguments.append(self.expression())
            if not self.took(","):
                break
        self.expect(")")
        return arguments

    def function(self, start: int, name: str) -> Tree:
        match name:
            case "cast" | "try_cast":
                value = self.expression()
                self.expect("as")
                made = self.type_until(")")
                return Cast(value, made, name == "try_cast", self.since(start))
            case "struct":
                return self.struct(start)
            case "position":
                return self.position(start)
            case "extract":
                unit = self.identifier()
                self.expect("from")
                return self.closed(start, "extract", Constant(STRING, unit.lower()), self.value())
            case "trim":
                return self.trim(start)
            case "substring" | "substr":
                return self.substring(start, name)
        arguments = self.listed()
        if self.at("over", "filter", "within", "ignore", "respect"):
            self.fail()
        match arguments:
            case [Name((unit,)), amount, moment] if name in _BY_UNIT and unit.lower() in _UNITS:
                return self.call(start, _BY_UNIT[name], Constant(STRING, unit.lower()), amount, moment)
        if name in ("ltrim", "rtrim"):
            arguments.reverse()  # as functions they have first what is trimmed off
        return self.call(start, name, *arguments)

    def closed(self, start: int, name: str, *arguments: Tree) -> Call:
        self.expect(")")
        return self.call(start, name, *arguments)

    def position(self, start: int) -> Tree:
        first = self.value()
        if self.took("in"):
            return self.closed(start, "position", first, self.value())
        if self.took(")"):
            return self.call(start, "position", first)
        self.expect(",")
        return self.call(start, "position", first, *self.listed())

    def substring(self, start: int, name: str) -> Tree:
        arguments = [self.value()]
        while self.took("from", "for", ","):
            arguments.append(self.value())
        return self.closed(start, name, *arguments)

    def trim(self, start: int) -> Tree:
        side = self.took("both", "leading", "trailing") or "both"
        name = {"both": "btrim", "leading": "ltrim", "trailing": "rtrim"}[side]
        if self.took("from"):
            return self.closed(start, name, self.value())
        first = self.value()
        if self.took("from"):
            return self.closed(start, name, self.value(), first)
        if self.took(","):  # trim(what, from)
            return self.closed(start, "btrim", self.value(), first)
        return self.closed(start, "btrim", first)

    def struct(self, start: int) -> Tree:
        """A struct by its fields; one without a name is called as the column is."""
        arguments: list[Tree] = []
        while not self.took(")"):
            if arguments:
                self.expect(",")
            value = self.expression()
            match value:
                case _ if self.took("as"):
                    name = self.identifier()
                case Name(parts):
                    name = parts[-1]
                case Field():
                    self.fail()
                case _:
                    name = f"col{len(arguments) // 2 + 1}"
            arguments += [Constant(STRING, name), value]
        return self.call(start, "named_struct", *arguments)

    def type_until(self, closing: str | None) -> ddl.Type:
        """A type, up to the bracket that closes the cast, or as far as it goes."""
        start, depth = self.next, 0
        while True:
            if self.kind in ("word", "quoted"):
                self.next += 1
            elif mark := self.took("<", "("):
                depth += 1
            elif depth and (mark := self.took(">", ")", ":", ",")):
                depth -= mark in (">", ")")
            elif depth and self.kind == "number":
                self.next += 1
            else:
                break
            if closing is None and depth == 0 and not self.at("<", "("):
                break
        if closing is not None:
            self.expect(closing)
        end = self.words[self.next - (closing is not None)]
        return literals.type_named(self.sql[self.words[start].start : end.start])
