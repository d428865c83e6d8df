"""Arrow types ⇄ Spark types."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema."""
    return from_arrow_schema(schema)


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema that Spark gives to Python for this schema."""
    return to_arrow_schema(schema, timezone="UTC")
