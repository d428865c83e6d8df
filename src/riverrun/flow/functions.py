"""What is known about Spark's functions: their result types, and which ones a row expression may not call.

Result types are looked up by the name a function has in SQL.
"""

from __future__ import annotations

from riverrun.ddl import Array, Scalar, Type
from riverrun.flow.schema import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Functions whose value depends on when or where they run: a repeated epoch would give other results.
NONDETERMINISTIC = _words("""
    now current_timestamp current_date current_time curdate curtime localtimestamp
    rand random randn uuid shuffle randstr uniform monotonically_increasing_id spark_partition_id
    input_file_name input_file_block_start input_file_block_length reflect java_method try_reflect
    current_user session_user user current_database current_schema current_catalog
""")

# One row in, several out: the hidden row id would no longer name one row.
GENERATORS = _words("""
    explode explode_outer posexplode posexplode_outer inline inline_outer stack json_tuple variant_explode
""")

# Known by name, since the parser has no class for some of them.
AGGREGATES = _words("""
    count sum avg mean min max stddev std stddev_pop stddev_samp variance var_pop var_samp first first_value last
    last_value any_value collect_list collect_set array_agg approx_count_distinct approx_percentile percentile
    percentile_approx percentile_cont percentile_disc median mode max_by min_by corr covar_pop covar_samp skewness
    kurtosis count_if bool_and bool_or every bit_and bit_or bit_xor regr_slope regr_intercept regr_count regr_r2
    grouping grouping_id histogram_numeric count_min_sketch hll_sketch_agg hll_union_agg bitmap_construct_agg
    bitmap_or_agg try_sum try_avg listagg string_agg product
""")
WINDOWS = _words("""
    row_number rank dense_rank percent_rank cume_dist ntile lag lead nth_value window session_window window_time
""")

_RESULTS: dict[Type, str] = {
    STRING: """
        upper lower ucase lcase trim ltrim rtrim btrim substring substr left right replace translate initcap lpad rpad
        repeat concat_ws md5 sha sha1 sha2 hex base64 get_json_object date_format from_unixtime regexp_extract
        regexp_replace regexp_substr to_json format_string printf format_number overlay soundex url_encode url_decode
        parse_url substring_index split_part chr char space elt dayname monthname typeof decode bin conv to_char
    """,
    INT: """
        length len char_length character_length octet_length bit_length ascii instr locate position levenshtein
        year month day dayofmonth dayofweek dayofyear hour minute second quarter week weekofyear weekday
        size array_size cardinality hash find_in_set unix_date datediff date_diff bit_count regexp_count
    """,
    BIGINT: """
        xxhash64 crc32 unix_micros unix_millis unix_seconds unix_timestamp to_unix_timestamp timestampdiff factorial
        array_position
    """,
    DOUBLE: """
        sqrt cbrt exp expm1 ln log log10 log2 log1p pow power sin cos tan asin acos atan atan2 sinh cosh tanh degrees
        radians months_between rint hypot signum sign
    """,
    BOOLEAN: """
        array_contains arrays_overlap startswith endswith contains isnan isnull isnotnull
        regexp_like regexp map_contains_key exists any forall equal_null
    """,
    DATE: """
        to_date add_months last_day next_day trunc make_date date_from_unix_date
    """,
    TIMESTAMP: """
        date_trunc to_timestamp timestamp_seconds timestamp_millis timestamp_micros from_utc_timestamp
        to_utc_timestamp make_timestamp
    """,
    Array(STRING): "split regexp_extract_all",
}
RESULTS: dict[str, Type] = {name: result for result, names in _RESULTS.items() for name in names.split()}

# These give bytes when they are given bytes.
BYTES_TOO = _words("substring substr left right lpad rpad overlay")

# The result has the type of the first argument.
LIKE_FIRST = _words("""
    abs negative positive ~ nullif reverse slice filter sort_array array_sort array_distinct array_remove array_compact
    array_except array_intersect
""")
# The result has the common type of all arguments.
LIKE_ALL = _words("coalesce greatest least nvl ifnull nanvl")

# Casts that are written as functions.
CASTS: dict[str, Type] = {
    name: Scalar(name)
    for name in [
        "boolean",
        "tinyint",
        "smallint",
        "int",
        "bigint",
        "float",
        "double",
        "date",
        "timestamp",
        "string",
        "binary",
    ]
}
