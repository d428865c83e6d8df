"""What is known about Spark's functions: their result types, and which ones a row expression may not call.

Result types are looked up by the name a function has in SQL, and by the name sqlglot's parser gives it.
"""

from __future__ import annotations

from riverrun.ddl import Array, Type
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
        upper lower ucase lcase trim ltrim rtrim btrim substring substr left right replace translate initcap pad lpad
        rpad repeat concatws concat_ws md5 sha sha1 sha2 hex base64 jsonextractscalar get_json_object timetostr
        date_format unixtostr from_unixtime regexpextract regexp_extract regexpreplace regexp_replace regexp_substr
        jsonformat to_json format_string printf format_number overlay soundex url_encode url_decode parse_url
        substringindex substring_index splitpart split_part chr char space elt dayname monthname typeof decode
    """,
    INT: """
        length char_length character_length octet_length bit_length ascii unicode strposition instr locate levenshtein
        year month day dayofmonth dayofweek dayofyear hour minute quarter week weekofyear weekday
        day_of_month day_of_week day_of_year week_of_year
        arraysize size array_size cardinality hash find_in_set unix_date unixdate array_position arrayposition
    """,
    BIGINT: """
        xxhash64 crc32 unix_micros unixmicros unix_millis unixmillis unix_seconds unixseconds strtounix unix_timestamp
        to_unix_timestamp timestampdiff factorial
    """,
    DOUBLE: """
        sqrt cbrt exp expm1 ln log log10 log2 log1p pow power sin cos tan asin acos atan atan2 sinh cosh tanh degrees
        radians monthsbetween months_between rint hypot signum sign
    """,
    BOOLEAN: """
        arraycontains array_contains arraysoverlap arrays_overlap startswith starts_with endswith ends_with contains
        isnan isnull isnotnull regexplike map_contains_key exists forall
    """,
    DATE: """
        tsordstodate to_date todate add_months addmonths last_day lastday next_day nextday trunc make_date
        datefromparts date_from_unix_date datefromunixdate strtodate
    """,
    TIMESTAMP: """
        timestamptrunc date_trunc to_timestamp strtotime timestamp_seconds timestamp_millis timestamp_micros
        from_utc_timestamp to_utc_timestamp make_timestamp timestampadd
    """,
    Array(STRING): "split regexpsplit regexp_extract_all regexpextractall",
}
RESULTS: dict[str, Type] = {name: result for result, names in _RESULTS.items() for name in names.split()}

# These give bytes when they are given bytes.
BYTES_TOO = _words("substring substr left right pad lpad rpad overlay")

# The result has the type of the first argument.
LIKE_FIRST = _words("""
    abs neg paren bitwisenot nullif reverse slice filter arrayfilter arraysort sortarray array_sort sort_array
    arrayreverse arrayslice arraydistinct array_distinct array_remove arrayremove array_compact arraycompact
    array_except arrayexcept array_intersect arrayintersect
""")
# The result has the common type of all arguments.
LIKE_ALL = _words("coalesce greatest least nvl ifnull")
