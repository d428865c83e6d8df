"""Rows of views as documents of an index, and back.

An index holds the views of one flow. Column j of view i is the field `v<i>c<j>`: of strings the words, of numbers, times and
decimals a number to filter by; other columns are no fields. The whole row is stored beside them, in the kept layout, so that
any value comes back as it was. `k` is the key, `v` the view.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any

import msgspec
import pyarrow as pa
import tantivy

from riverrun.errors import Corrupt
from riverrun.search.fields import SearchField, SearchFields, search_fields
from riverrun.search.words import Analyzer
from riverrun.state.frames import from_arrow
from riverrun.views.derived.key_text import key_texts
from riverrun.views.layout import Layout, layout_of
from riverrun.views.spec import ViewSpec

KEY, VIEW, ROW, WORDS = "k", "v", "row", "riverrun"
MARKER = "marker"  # no key of a row: those begin with the number of their view
ANALYZER = Analyzer()
_LONGEST = 1000  # characters of a key; tantivy drops terms that are longer than 64 KiB


@dataclass(frozen=True)
class SearchedView:
    """A view in an index, by its number there."""

    number: int
    spec: ViewSpec

    @cached_property
    def layout(self) -> Layout:
        return layout_of(self.spec)

    @cached_property
    def fields(self) -> SearchFields:
        """The visible columns that can be searched; words without a column are looked for in all strings."""
        visible = pa.schema([self.spec.arrow.field(name) for name in self.spec.visible])
        columns = dict(from_arrow(visible.empty_table()).schema)
        found = search_fields(columns, [])
        return SearchFields(found.fields, tuple(field.name for field in found.fields if field.kind == "text"))

    def field(self, column: str) -> str:
        """What the index calls a column."""
        return f"v{self.number}c{self.spec.names.index(column)}"

    def key(self, text: str) -> str:
        """The term by which a row is found, from the text of its key."""
        if len(text) > _LONGEST:
            text = "#" + hashlib.blake2b(text.encode(), digest_size=32).hexdigest()
        return f"{self.number}:{text}"

    def keys(self, kept: pa.Table) -> list[str]:
        """The same of many kept rows."""
        return [self.key(text) for text in key_texts(self.spec, kept).to_pylist()]

    def documents(self, kept: pa.Table) -> Iterator[Any]:
        """A document for each kept row."""
        names = list(self.layout.columns)
        columns = [kept.column(name).to_pylist() for name in names]
        fields = [
            (self.field(field.name), field, names.index(f"c{self.spec.names.index(field.name)}"))
            for field in self.fields.fields
        ]
        pack, view, terms = msgspec.msgpack.Encoder().encode, str(self.number), ANALYZER.terms
        for key, row in zip(self.keys(kept), zip(*columns, strict=True), strict=True):
            document = tantivy.Document()
            document.add_text(KEY, key)
            document.add_text(VIEW, view)
            document.add_bytes(ROW, pack(row))
            for name, field, at in fields:
                value = row[at]
                if value is None:
                    continue
                if field.kind == "text":
                    document.add_text(name, " ".join(terms(value)))
                elif field.kind == "float":
                    document.add_float(name, value)
                else:
                    document.add_integer(name, _units(value, field))
            yield document

    def rows(self, stored: Sequence[bytes]) -> pa.Table:
        """Rows, every column, from what is stored of documents."""
        unpack = msgspec.msgpack.Decoder().decode
        rows = [unpack(one) for one in stored]
        columns: list[list[object]] = [list(column) for column in zip(*rows, strict=True)] or [
            [] for _ in self.layout.columns
        ]
        if len(columns) != len(self.layout.columns):
            raise Corrupt(f"rows of view {self.spec.name!r} in the index have other columns", hint="Rebuild the view")
        kept = self.layout.table(columns)
        every = ViewSpec(self.spec.name, self.spec.flow, self.spec.schema, self.spec.key)
        return layout_of(every).give_back(kept)


def _units(value: Any, field: SearchField) -> int:
    """What a kept value of a column is compared as."""
    return int(Decimal(value).scaleb(field.scale)) if field.kind == "decimal" else int(value)


def index_schema(views: Sequence[SearchedView]) -> Any:
    """The fields of an index of these views."""
    builder = tantivy.SchemaBuilder()
    for name in (KEY, VIEW):
        builder.add_text_field(name, tokenizer_name="raw", index_option="basic")
    builder.add_bytes_field(ROW, stored=True, indexed=False)
    for view in views:
        for field in view.fields.fields:
            name = view.field(field.name)
            if field.kind == "text":
                builder.add_text_field(name, tokenizer_name=WORDS, index_option="position")
            elif field.kind == "float":
                builder.add_float_field(name, fast=True)
            else:
                builder.add_integer_field(name, fast=True)
    return builder.build()
