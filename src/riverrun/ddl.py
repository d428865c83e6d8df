"""Schemas as Spark writes them: "user string not null, tags array<string>, at timestamp".

One parser for the log, for flows and for the command line; it needs neither Spark nor SQL.

>>> render(parse("user STRING not null, price: dec(8,2), tags array<string>"))
'user string NOT NULL, price decimal(8,2), tags array<string>'
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from riverrun.errors import Invalid, did_you_mean
from riverrun.type_names import MEANT

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Scalar:
    """A type without parameters, by its canonical Spark name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Decimal:
    """Exact numbers: `precision` digits, `scale` of them behind the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Array:
    """A list of values of one type; elements may be null."""

    element: Type

    def __str__(self) -> str:
        return f"array<{self.element}>"


@dataclass(frozen=True, slots=True)
class Map:
    """Keys to values; keys are never null, values may be."""

    key: Type
    value: Type

    def __str__(self) -> str:
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True, slots=True)
class Struct:
    """Named fields, in order."""

    fields: tuple[Column, ...]

    def __str__(self) -> str:
        return f"struct<{','.join(column.written(':') for column in self.fields)}>"


Type = Scalar | Decimal | Array | Map | Struct


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a schema, or one field of a struct."""

    name: str
    type: Type
    nullable: bool = True
    comment: str | None = None

    def written(self, between: str = " ") -> str:
        """The column as DDL; a struct's fields have a colon `between` name and type."""
        text = f"{quoted(self.name)}{between}{self.type}"
        if not self.nullable:
            text += " NOT NULL"
        if self.comment is not None:
            text += f" COMMENT {literal(self.comment)}"
        return text


_NAMES = {
    "string": ("string",),
    "boolean": ("boolean",),
    "tinyint": ("tinyint", "byte"),
    "smallint": ("smallint", "short"),
    "int": ("int", "integer"),
    "bigint": ("bigint", "long"),
    "float": ("float", "real"),
    "double": ("double",),
    "date": ("date",),
    "timestamp": ("timestamp", "timestamp_ltz"),
    "timestamp_ntz": ("timestamp_ntz",),
    "binary": ("binary",),
}
_SCALARS = {alias: Scalar(name) for name, aliases in _NAMES.items() for alias in aliases}
_TEXTS = ("varchar", "char", "character")
_DECIMALS = ("decimal", "dec", "numeric")
_NESTED = ("array", "map", "struct")
_KNOWN = (*_SCALARS, *_TEXTS, *_DECIMALS, *_NESTED)

_TOKEN = re.compile(
    r"\s*(?:(?P<quoted>`(?:[^`]|``)+`)|(?P<text>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|(?P<word>\w+)|(?P<mark>[:,<>()]))",
    re.DOTALL,
)
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def quoted(name: str) -> str:
    """A column name as SQL reads it: in backquotes only where they are needed."""
    return name if _PLAIN.fullmatch(name) else backquoted(name)


def backquoted(name: str) -> str:
    """A column name as SQL reads it, also where it would read a plain one as something else."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A text as SQL reads it."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def parse(ddl: str) -> list[Column]:
    """The columns of a DDL string. `Invalid` says what is wrong and at which character."""
    if not isinstance(ddl, str):
        raise Invalid(f"a schema is a DDL string, not {ddl!r}", hint='Write "user string, at timestamp"')
    return _TypeParser(ddl).columns()


def parse_type(ddl: str) -> Type:
    """One type, such as "array<int>"."""
    return _TypeParser(ddl).only_type()


def render(columns: Iterable[Column]) -> str:
    """The canonical DDL string; `parse(render(c)) == c`."""
    return ", ".join(column.written() for column in columns)


class _TypeParser:
    def __init__(self, ddl: str) -> None:
        self.ddl = ddl
        self.tokens: list[tuple[str, str, int]] = []
        self.next = 0
        at, end = 0, len(ddl.rstrip())
        while at < end:
            found = _TOKEN.match(ddl, at)
            if not found:
                at += len(ddl[at:]) - len(ddl[at:].lstrip())
                self.tokens.append(("end", "", at))
                self.next = len(self.tokens) - 1
                numpy = re.search(r"datetime64\s*$", ddl[:at], re.IGNORECASE) if ddl[at] == "[" else None
                self.fail(
                    f"unexpected {ddl[at]!r}", hint="Write timestamp: it has microseconds, in UTC" if numpy else None
                )
            kind = found.lastgroup or ""
            self.tokens.append((kind, found[kind], found.start(kind)))
            at = found.end()
        self.tokens.append(("end", "", end))

    def fail(self, what: str, hint: str | None = None) -> NoReturn:
        place = self.tokens[self.next][2]
        raise Invalid(f"schema: {what} at character {place + 1} of {self.ddl!r}", hint=hint)

    def peek(self) -> tuple[str, str]:
        kind, text, _ = self.tokens[self.next]
        return kind, text if kind in ("quoted", "text") else text.lower()

    def took(self, kind: str, text: str) -> bool:
        if self.peek() != (kind, text):
            return False
        self.next += 1
        return True

    def expect(self, mark: str, after: str) -> None:
        if not self.took("mark", mark):
            self.fail(f"expected {mark!r} after {after}, found {self.found()}")

    def found(self) -> str:
        kind, text, _ = self.tokens[self.next]
        return "the end" if kind == "end" else repr(text)

    def columns(self) -> list[Column]:
        if self.peek()[0] == "end":
            self.fail("no columns", hint='Write "user string, at timestamp"')
        found = self.members()
        if self.peek()[0] != "end":
            self.fail(f"expected ',' after column {found[-1].name!r}, found {self.found()}")
        return found

    def members(self) -> list[Column]:
        members: list[Column] = []
        while True:
            start = self.next
            member = self.member()
            if member.name.lower() in (other.name.lower() for other in members):
                self.next = start
                self.fail(f"column {member.name!r} is there twice (case does not count)")
            members.append(member)
            if not self.took("mark", ","):
                return members

    def member(self) -> Column:
        kind, text, _ = self.tokens[self.next]
        if kind not in ("word", "quoted"):
            self.fail(f"expected a column name, found {self.found()}")
        self.next += 1
        name = text[1:-1].replace("``", "`") if kind == "quoted" else text
        self.took("mark", ":")
        column_type = self.type_of(name)
        nullable = True
        if self.took("word", "not"):
            if not self.took("word", "null"):
                self.fail(f"expected NULL after NOT of column {name!r}, found {self.found()}")
            nullable = False
        comment = None
        if self.took("word", "comment"):
            kind, text = self.peek()
            if kind != "text":
                self.fail(f"expected a quoted text after COMMENT of column {name!r}, found {self.found()}")
            self.next += 1
            comment = re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL)
        return Column(name, column_type, nullable, comment)

    def only_type(self) -> Type:
        found = self.type_of("the value")
        if self.peek()[0] != "end":
            self.fail(f"expected the end after the type, found {self.found()}")
        return found

    def type_of(self, column: str) -> Type:
        kind, word = self.peek()
        if kind != "word":
            self.fail(f"expected the type of {column!r}, found {self.found()}")
        if word not in _KNOWN:
            hint = f"Write {MEANT[word]}" if word in MEANT else did_you_mean(word, _KNOWN)
            self.fail(f"unknown type {word!r} of {column!r}", hint=hint)
        start, self.next = self.next, self.next + 1
        if word in _SCALARS:
            return _SCALARS[word]
        if word in _TEXTS:
            if self.peek() != ("mark", "("):
                self.fail(f"{word} of {column!r} has no length", hint="Write string")
            self.numbers(word, 1)
            return _SCALARS["string"]
        if word in _DECIMALS:
            given = self.numbers(word, 2) if self.peek() == ("mark", "(") else [10]
            precision, scale = (*given, 0)[:2]
            if not 1 <= precision <= 38 or not 0 <= scale <= precision:
                self.next = start
                self.fail(f"decimal({precision},{scale}) of {column!r}: precision is 1 to 38, scale 0 to precision")
            return Decimal(precision, scale)
        return self.nested(word, column)

    def nested(self, word: str, column: str) -> Type:
        self.expect("<", word)
        made: Type
        if word == "array":
            made = Array(self.type_of(column))
        elif word == "map":
            key = self.type_of(column)
            if isinstance(key, Map):
                self.next -= 1
                self.fail(f"a map cannot be the key of map {column!r}")
            self.expect(",", f"the key type of map {column!r}")
            made = Map(key, self.type_of(column))
        else:
            made = Struct(() if self.peek() == ("mark", ">") else tuple(self.members()))
        self.expect(">", f"the {word} type of {column!r}")
        return made

    def numbers(self, word: str, most: int) -> list[int]:
        self.expect("(", word)
        numbers: list[int] = []
        while not numbers or (len(numbers) < most and self.took("mark", ",")):
            kind, text = self.peek()
            if kind != "word" or not text.isdecimal():
                self.fail(f"expected a number in {word}(…), found {self.found()}")
            self.next += 1
            numbers.append(int(text))
        self.expect(")", f"{word}({','.join(map(str, numbers))}")
        return numbers


def to_arrow(column_type: Type) -> pa.DataType:
    """The Arrow type rows of this type are stored and exchanged in."""
    import pyarrow as pa

    match column_type:
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Array(element):
            return pa.list_(to_arrow(element))
        case Map(key, value):
            return pa.map_(to_arrow(key), to_arrow(value))
        case Struct(fields):
            return pa.struct([_field(column) for column in fields])
        case Scalar("timestamp"):
            return pa.timestamp("us", "UTC")
        case Scalar("timestamp_ntz"):
            return pa.timestamp("us")
        case Scalar(name):
            arrow = {
                "boolean": "bool",
                "tinyint": "int8",
                "smallint": "int16",
                "int": "int32",
                "bigint": "int64",
                "date": "date32",
            }
            return pa.type_for_alias(arrow.get(name, name))


def _field(column: Column) -> pa.Field:
    import pyarrow as pa

    metadata = {"comment": column.comment} if column.comment is not None else None
    return pa.field(column.name, to_arrow(column.type), column.nullable, metadata)


def arrow_schema(columns: Sequence[Column]) -> pa.Schema:
    """The Arrow schema of the columns; comments become field metadata."""
    import pyarrow as pa

    return pa.schema([_field(column) for column in columns])


def from_arrow(arrow: pa.DataType) -> Type:
    """The Spark type that holds every value of the Arrow type; `Invalid` where there is none."""
    import pyarrow as pa

    is_ = pa.types
    if is_.is_dictionary(arrow) or is_.is_run_end_encoded(arrow):
        return from_arrow(arrow.value_type)
    if is_.is_decimal(arrow) and arrow.precision <= 38 and 0 <= arrow.scale <= arrow.precision:
        return Decimal(arrow.precision, arrow.scale)
    if is_.is_timestamp(arrow):
        return Scalar("timestamp_ntz" if arrow.tz is None else "timestamp")
    if is_.is_map(arrow):
        return Map(from_arrow(arrow.key_type), from_arrow(arrow.item_type))
    if is_.is_struct(arrow):
        return Struct(tuple(_column(field) for field in arrow))
    if hasattr(arrow, "value_type"):
        return Array(from_arrow(arrow.value_type))
    if arrow == pa.uint64():
        return Decimal(20, 0)
    names = {
        "bool": "boolean",
        "int8": "tinyint",
        "uint8": "smallint",
        "int16": "smallint",
        "uint16": "int",
        "int32": "int",
        "uint32": "bigint",
        "int64": "bigint",
        "halffloat": "float",
        "float": "float",
        "double": "double",
        "date32[day]": "date",
        "date64[ms]": "date",
    }
    texts = {"string": "string", "large_string": "string", "string_view": "string"}
    blobs = {"binary": "binary", "large_binary": "binary", "binary_view": "binary"}
    name = {**names, **texts, **blobs}.get(str(arrow))
    if is_.is_fixed_size_binary(arrow):
        name = "binary"
    if name is None:
        raise Invalid(f"Spark has no type for Arrow's {arrow}", hint="Cast the column first")
    return Scalar(name)


def _column(field: pa.Field) -> Column:
    comment = (field.metadata or {}).get(b"comment")
    return Column(field.name, from_arrow(field.type), field.nullable, comment.decode() if comment is not None else None)


def columns_from_arrow(schema: pa.Schema) -> list[Column]:
    """The columns of an Arrow schema; the way back from `arrow_schema`."""
    return [_column(field) for field in schema]
