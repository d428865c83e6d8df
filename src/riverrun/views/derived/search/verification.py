"""Rows that meet a search, looked at one by one as stored searches are: for what tantivy cannot say."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from riverrun.search.documents import analyse
from riverrun.search.fields import SearchFields
from riverrun.search.programs import Programs
from riverrun.search.tree import QueryTree
from riverrun.search.verification import verify
from riverrun.search.vocabulary import Vocabulary
from riverrun.state.frames import from_arrow
from riverrun.views.derived.search.documents import ANALYZER


def meeting(tree: QueryTree, fields: SearchFields, rows: pa.Table) -> pa.Table:
    """Those of the rows that meet a search, in their order."""
    programs = Programs(fields, Vocabulary())
    programs.add([tree])
    documents = analyse(from_arrow(rows), fields, ANALYZER, programs.vocabulary)
    numbers = np.arange(rows.num_rows)
    return rows.filter(pa.array(verify(programs, documents, numbers, np.zeros_like(numbers))))
