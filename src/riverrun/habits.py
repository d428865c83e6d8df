"""What people type who come from pandas, PySpark, Flink, Kafka Streams or Polars, and what does it here."""

from __future__ import annotations

_WHERE = 'Use where("amount > 5")'
_GROUP = 'Use group("user").agg(total=rr.sum("amount")), or window(rr.tumbling("1 minute"), by="user").agg(…)'
_COLUMN = 'Use with_columns(total="price * quantity")'
_ROWS = "Use select(…) or with_columns(…) with SQL, or transform(fn) for plain Spark, row by row"
_STATE = "Use apply(step, by=…, state=…, output=…): a stateful operator of your own"
_JOIN = 'Use join(other, on="user", how="left"); two streams also need within="1 hour"'
_AS_OF = 'Use as_of(table, on="user"): the version that was valid at the row\'s time'
_DEDUPE = 'Use dedupe("order_id", within="1 hour")'
_ONE_PER_KEY = 'A table has one row for each key: make it of a stream with latest("order_id"), or use group("order_id")'
_TABLE_GROUP = 'Use group("user").agg(total=rr.sum("amount")); windows are of streams: window(…) comes before the table'
_FOLLOWED = 'A table is current by itself; windows are of streams: stream.window(rr.tumbling("1 minute")).agg(…)'
_SAID_ONCE = "Nothing is computed twice: a node that several others use is computed once"
_TOP = 'Use top(10, by="amount desc", per="user")'
_UNION = "Use union(other)"
_WINDOW = 'Use window(rr.tumbling("1 minute"), by="user").agg(…); also rr.hopping, rr.sliding, rr.session'
_LATEST = 'Use latest("user"): a table with the last row per key'
_TIME = 'Event time is said where the topic is read: flow.stream(…, time="at", lateness="10 seconds")'
_END = 'Name the end on the flow: flow.view("name", node), flow.topic("name", node) or flow.alert("name", node, to=…)'
_EACH = "flow.alert sends rows to an address; river.topic(…).consumer(group) hands them to your own code"
_RESULT = 'A flow holds no rows: name a view, run the flow, then river.view("name").rows() or .arrow()'
_NAME = 'Use named("per minute")'

METHODS = {
    **dict.fromkeys(("filter", "query", "filter_by", "find"), _WHERE),
    **dict.fromkeys(
        ("group_by", "groupBy", "groupby", "key_by", "keyBy", "partition_by", "partitionBy", "agg", "aggregate"), _GROUP
    ),
    **dict.fromkeys(("reduce", "fold", "count", "sum", "mean", "avg", "min", "max", "pivot", "pivot_table"), _GROUP),
    **dict.fromkeys(("withColumn", "with_column", "withColumns", "assign", "add_column", "insert"), _COLUMN),
    **dict.fromkeys(("astype", "cast"), 'Use with_columns(amount="cast(amount as double)")'),
    **dict.fromkeys(("fillna", "fill_null", "na"), 'Use with_columns(amount="coalesce(amount, 0)")'),
    **dict.fromkeys(("dropna", "drop_nulls"), 'Use where("amount is not null")'),
    **dict.fromkeys(("rename", "withColumnRenamed", "rename_columns"), 'Use select("old as new", "* except (old)")'),
    **dict.fromkeys(("drop_columns",), 'Use drop("column")'),
    **dict.fromkeys(("project", "selectExpr", "select_expr"), 'Use select("user", "price * quantity as total")'),
    **dict.fromkeys(("map", "flat_map", "flatMap", "map_values", "mapValues", "map_batches", "applymap"), _ROWS),
    **dict.fromkeys(("mapInPandas", "mapInArrow", "mapPartitions", "pipe", "explode"), _ROWS),
    **dict.fromkeys(
        ("process", "stateful_map", "applyInPandas", "applyInPandasWithState", "transformWithState"), _STATE
    ),
    **dict.fromkeys(("merge", "left_join", "leftJoin", "inner_join", "outer_join", "outerJoin", "lookup"), _JOIN),
    **dict.fromkeys(("interval_join", "intervalJoin", "connect", "co_group", "coGroup", "crossJoin"), _JOIN),
    **dict.fromkeys(("merge_asof", "join_asof", "asof", "asof_join", "temporal_join"), _AS_OF),
    **dict.fromkeys(("drop_duplicates", "dropDuplicates", "dropDuplicatesWithinWatermark", "unique"), _DEDUPE),
    **dict.fromkeys(("distinct", "deduplicate"), _DEDUPE),
    **dict.fromkeys(("sort", "sort_values", "sort_by", "orderBy", "order_by", "limit", "head", "nlargest"), _TOP),
    **dict.fromkeys(("concat", "unionAll", "unionByName", "append", "union_all", "extend"), _UNION),
    **dict.fromkeys(("cache", "persist", "checkpoint", "unpersist"), _SAID_ONCE),
    **dict.fromkeys(("timeWindow", "time_window", "timeWindowAll", "countWindow", "count_window"), _WINDOW),
    **dict.fromkeys(("rolling", "resample", "window_all", "windowAll", "windowedBy", "windowed_by"), _WINDOW),
    **dict.fromkeys(("tumbling", "hopping", "sliding", "session", "tumble", "group_by_dynamic"), _WINDOW),
    **dict.fromkeys(("to_table", "toTable", "as_table", "last"), _LATEST),
    **dict.fromkeys(("to_stream", "toStream", "to_changelog"), "Use changes(), of a table"),
    **dict.fromkeys(("withWatermark", "with_watermark", "assign_timestamps_and_watermarks"), _TIME),
    **dict.fromkeys(("sink", "sink_to", "sinkTo", "add_sink", "addSink", "to", "write", "writeStream", "save"), _END),
    **dict.fromkeys(("view", "topic", "alert", "output", "to_topic", "to_view"), _END),
    **dict.fromkeys(("foreach", "for_each", "foreachBatch", "forEach"), _EACH),
    **dict.fromkeys(("collect", "show", "print", "to_pandas", "toPandas", "to_list", "to_arrow", "toDF"), _RESULT),
    **dict.fromkeys(("name", "uid", "set_uid", "alias"), _NAME),
}

TABLE_METHODS = {
    **{name: _TABLE_GROUP for name, answer in METHODS.items() if answer is _GROUP},
    **{name: _ONE_PER_KEY for name, answer in METHODS.items() if answer is _DEDUPE},
    **{name: _FOLLOWED for name, answer in METHODS.items() if answer is _WINDOW},
    **dict.fromkeys(
        [name for name, answer in METHODS.items() if answer is _JOIN], 'Use join(other, on="user", how="left")'
    ),
    **dict.fromkeys(
        [name for name, answer in METHODS.items() if answer is _AS_OF],
        'A stream asks for the version of its time: stream.as_of(table, on="user")',
    ),
    **dict.fromkeys(
        [name for name, answer in METHODS.items() if answer is _LATEST], "It is a table: its last row per key"
    ),
}
"""Where the answer for a table is another one than for a stream."""

_AVG = 'Use rr.avg("amount")'
_SQL = 'Columns and conditions are SQL in quotes: where("amount > 5"), with_columns(total="price * quantity")'

FUNCTIONS = {
    **dict.fromkeys(("mean", "average"), _AVG),
    "median": 'Use rr.quantile("amount", 0.5)',
    **dict.fromkeys(("std", "stdev"), 'Use rr.stddev("amount")'),
    **dict.fromkeys(
        ("var", "variance"), 'There is rr.stddev("amount"); its square is the variance: select("s * s as var")'
    ),
    **dict.fromkeys(
        ("lag", "lead", "prev", "next", "first_value", "last_value"),
        'Use match: stream.match("a b", by="user", measures={"before": "a.amount", "after": "b.amount"}), or apply',
    ),
    **dict.fromkeys(
        ("row_number", "rank", "dense_rank", "ntile"), 'Use top(3, "amount desc", per="user", rank="place")'
    ),
    **dict.fromkeys(("nunique", "n_unique", "count_distinct", "countDistinct"), 'Use rr.distinct("user")'),
    "approx_count_distinct": 'Use rr.approx_distinct("user")',
    **dict.fromkeys(("percentile", "percentile_approx"), 'Use rr.quantile("amount", 0.99)'),
    **dict.fromkeys(("collect_list", "collect_set", "array_agg"), 'Use rr.collect("item")'),
    **dict.fromkeys(("len", "size"), "Use rr.count()"),
    **dict.fromkeys(("tumble", "TumblingEventTimeWindows", "TumblingWindow", "window"), 'Use rr.tumbling("1 minute")'),
    **dict.fromkeys(
        ("Window", "windows", "TimeWindow"), 'Use stream.window(rr.tumbling("1 minute"), by="user").agg(…)'
    ),
    **dict.fromkeys(("hop", "HoppingWindow"), 'Use rr.hopping("1 hour", every="5 minutes")'),
    **dict.fromkeys(("col", "lit", "expr", "when", "functions", "F"), _SQL),
    **dict.fromkeys(("App", "Dataflow", "Application", "Pipeline"), 'Use rr.Flow("name")'),
    **dict.fromkeys(("connect", "open", "Client", "KafkaConsumer", "KafkaProducer"), 'Use rr.River("./river")'),
}

_READ = 'Use flow.stream("orders", "user string, at timestamp", time="at"), or flow.table(…) for a changelog'
_RUN = "Use river.run(flow), or riverrun run FLOW.py"

FLOW_METHODS = {
    **dict.fromkeys(
        ("source", "read", "from_topic", "from_source", "add_source", "readStream", "input", "consume"), _READ
    ),
    **dict.fromkeys(("fromSource", "addSource", "readTopic", "read_stream", "from_kafka", "fromTopic"), _READ),
    **dict.fromkeys(
        ("sql", "executeSql", "execute_sql", "query", "createDataFrame"),
        'A flow is built of nodes, with SQL inside: flow.stream(…).where("amount > 5"); views are asked: river.view("v").sql(…)',
    ),
    **dict.fromkeys(("sink", "output", "add_sink", "write", "writeStream", "to", "sink_to", "table_view"), _END),
    **dict.fromkeys(("run", "start", "execute", "process"), _RUN),
    **dict.fromkeys(
        ("where", "filter", "select", "join", "group", "window", "map"),
        'Streams and tables have it: flow.stream(…).where("amount > 5")',
    ),
}

COLUMN_METHODS = {
    **dict.fromkeys(("notnull", "notna", "is_not_null", "isnotnull"), 'Write "amount is not null"'),
    **dict.fromkeys(("isnull", "isna", "is_null"), 'Write "amount is null"'),
    **dict.fromkeys(("isin", "is_in"), 'Write "status in (1, 2)"'),
    **dict.fromkeys(("fillna", "fill_null"), 'Write "coalesce(amount, 0)"'),
    **dict.fromkeys(("astype", "cast"), 'Write "cast(amount as double)"'),
    **dict.fromkeys(("contains", "startswith", "endswith"), "Write \"name like '%tea%'\", or startswith(name, 'tea')"),
    "between": 'Write "amount between 1 and 5"',
}
"""Methods that columns have elsewhere, in the SQL of a condition."""

_APPEND = 'Use append({"user": "ada", "amount": 9.5}); producer().send(row) collects single rows'
_GROUP_OF = 'Use consumer("group"): for batch in topic.consumer("billing")'
_ONE_BY_ONE = 'Use queue("group"): for message in topic.queue("mails"), each acknowledged by itself'
_READ_ALL = "Use read(), a pyarrow.Table: read().to_pandas(), read().slice(0, 5)"
_CHOSEN = 'It is chosen when a topic is made: river.topic(name, schema, partitions=4, retention="7 days")'

TOPIC_METHODS = {
    **dict.fromkeys(("send", "produce", "publish", "put", "push", "write", "emit", "insert", "add"), _APPEND),
    **dict.fromkeys(("xadd", "send_batch", "extend", "append_rows", "ingest", "log"), _APPEND),
    **dict.fromkeys(("subscribe", "consume", "poll", "listen", "stream", "follow", "tail", "xread"), _GROUP_OF),
    **dict.fromkeys(("receive", "get", "pop", "task", "delay", "apply_async", "ack", "messages"), _ONE_BY_ONE),
    **dict.fromkeys(("to_pandas", "toPandas", "to_polars", "to_arrow", "arrow", "collect", "rows", "scan"), _READ_ALL),
    **dict.fromkeys(("head", "show", "to_list", "take", "fetch", "read_all"), _READ_ALL),
    **dict.fromkeys(("count", "size", "stats", "info"), "Use describe(); ends() has the offset behind the last row"),
    **dict.fromkeys(("filter", "where", "select", "map", "window", "group"), 'Flows compute: rr.Flow("f").stream(…)'),
    **dict.fromkeys(
        ("truncate", "purge", "clear", "drop"), "Use river.drop_topic(name); retention removes what is old"
    ),
    **dict.fromkeys(
        ("seek", "rewind", "replay"), 'Say where to begin: read(start=…), consumer("group", start="earliest")'
    ),
    **dict.fromkeys(("flush", "commit"), "What append returns from is in the log; producers have flush()"),
    **dict.fromkeys(("alter", "configure", "set_retention", "add_partitions", "retention"), _CHOSEN),
}

_VIEW_ROWS = 'Use rows(where="total > 5", limit=10) for dicts, arrow() for a pyarrow.Table: arrow().to_pandas()'
_FOLLOW = "Use changes(): what comes and goes, as it happens"

VIEW_METHODS = {
    **dict.fromkeys(("to_pandas", "toPandas", "to_polars", "to_arrow", "to_dict", "to_list", "collect"), _VIEW_ROWS),
    **dict.fromkeys(("read", "scan", "fetch", "fetchall", "all", "head", "show", "limit", "table"), _VIEW_ROWS),
    **dict.fromkeys(("filter", "where", "find", "select", "values", "items"), _VIEW_ROWS),
    **dict.fromkeys(("query", "execute", "group_by", "groupby", "join"), 'Use sql("select … from view")'),
    **dict.fromkeys(("lookup", "loc", "fetchone", "one", "find_one"), "Use get(key)"),
    **dict.fromkeys(("subscribe", "watch", "follow", "listen", "stream", "tail", "changelog", "poll"), _FOLLOW),
    **dict.fromkeys(
        ("at", "version", "time_travel", "history"), 'Use as_of(position or time); it needs history="7 days"'
    ),
    **dict.fromkeys(("count", "size", "shape"), "Use len(view)"),
    **dict.fromkeys(("columns", "schema", "dtypes"), "Use arrow(limit=0).schema"),
    **dict.fromkeys(("refresh", "update", "materialize"), "The run of its flow keeps it up: river.run(flow)"),
    **dict.fromkeys(
        ("insert", "append", "put", "write", "delete"), "Flows write views; append to the topics they read"
    ),
}

_TOPIC = 'Use topic("orders", "user string, at timestamp", key="user", time="at"), which makes it or opens it'
_RUN_IT = "Use run(flow), or riverrun run FLOW.py"

RIVER_METHODS = {
    **dict.fromkeys(("create_topic", "new_topic", "get_topic", "open_topic", "add_topic", "stream"), _TOPIC),
    **dict.fromkeys(("create_topics", "createTopics", "make_topic", "ensure_topic"), _TOPIC),
    **dict.fromkeys(("list_topics", "listTopics", "show_topics"), "Use topics()"),
    **dict.fromkeys(("delete_topic", "remove_topic", "delete_topics", "deleteTopics"), 'Use drop_topic("orders")'),
    **dict.fromkeys(("send", "produce", "publish", "append", "put", "write"), 'Use topic("orders").append(rows)'),
    "producer": 'Use topic("orders").producer()',
    "queue": 'Use topic("orders").queue("group")',
    **dict.fromkeys(("subscribe", "consume", "poll", "listen"), 'Use consumer("group", "orders*")'),
    **dict.fromkeys(("read", "read_topic", "scan"), 'Use topic("orders").read()'),
    **dict.fromkeys(("flow", "create_flow", "pipeline", "dataflow"), 'Use rr.Flow("name"), then river.run(flow)'),
    **dict.fromkeys(("start", "execute", "submit", "deploy", "run_flow", "add_flow"), _RUN_IT),
    **dict.fromkeys(
        ("table", "get_view", "open_view", "create_view"), 'Use view("revenue"), to read; flows make views'
    ),
    **dict.fromkeys(("sql", "query"), 'Use view("revenue").sql("select … from revenue")'),
    **dict.fromkeys(("list_groups", "consumer_groups", "listConsumerGroups"), "Use groups"),
    **dict.fromkeys(("views", "list_views"), "Use: riverrun view list"),
    **dict.fromkeys(("connect", "open", "init", "create"), 'rr.River("./river") is open, and makes what is missing'),
    **dict.fromkeys(("stop", "shutdown", "disconnect", "terminate"), "Use close()"),
    "serve": "Use rr.serve_in_background(river), or riverrun serve",
}

_BATCHES = 'Use it in a loop: for batch in consumer; or poll("1 second"). Each is a pyarrow.RecordBatch'

CONSUMER_METHODS = {
    **dict.fromkeys(
        ("subscribe", "assign", "subscription"), 'Topics are said before: river.consumer("group", ["orders"])'
    ),
    **dict.fromkeys(("receive", "get", "read", "fetch", "consume", "getmany", "getone", "messages", "rows"), _BATCHES),
    **dict.fromkeys(("commitSync", "commitAsync", "commit_sync", "commit_async", "commit_offsets"), "Use commit()"),
    **dict.fromkeys(
        ("ack", "acknowledge", "store_offsets"), "Use commit(); a queue acknowledges one by one: topic.queue(group)"
    ),
    **dict.fromkeys(("nack", "reject", "retry"), 'Queues have it: topic.queue("group")'),
    **dict.fromkeys(
        ("seek", "seek_to_beginning", "seekToBeginning", "seek_to_end", "rewind", "offsets_for_times"),
        'Say where to begin: consumer(group, start="earliest"); riverrun group reset moves a group',
    ),
    **dict.fromkeys(("pause", "resume"), "Stop calling poll: what comes meanwhile stays in the log"),
    **dict.fromkeys(("lag", "metrics", "end_offsets"), 'Use river.lag("group")'),
    **dict.fromkeys(("unsubscribe", "leave", "stop", "shutdown", "wakeup"), "Use close()"),
    **dict.fromkeys(("tell", "committed", "offsets"), "Use position; river.lag(group) has what is committed"),
}

RUN_METHODS = {
    **dict.fromkeys(("awaitTermination", "await_termination", "join", "block", "result", "exception"), "Use wait()"),
    **dict.fromkeys(("cancel", "terminate", "kill", "shutdown", "close", "abort", "interrupt"), "Use stop()"),
    **dict.fromkeys(("processAllAvailable", "process_all", "flush", "trigger", "tick", "catch_up"), "Use process()"),
    **dict.fromkeys(("finish", "complete", "end"), "Use drain(): every window closes"),
    **dict.fromkeys(("lastProgress", "recentProgress", "progress", "metrics", "stats"), "Use status() or epochs()"),
    **dict.fromkeys(
        ("isActive", "is_running", "is_alive", "state", "running", "lag"), 'Use status()["state"], ["lag"]'
    ),
    **dict.fromkeys(("savepoint", "checkpoint", "snapshot"), "A run goes on where the last one stopped, by itself"),
    **dict.fromkeys(("start", "run", "execute", "restart", "resume"), "It runs since river.run(flow) returned"),
    **dict.fromkeys(("view", "topic", "rows", "sql"), 'The river has it: river.view("revenue").rows()'),
    **dict.fromkeys(("replay", "backfill", "reprocess"), 'Use rebuild(), or river.run(flow, start=…, suffix="-2")'),
}

ARGUMENTS = {
    **dict.fromkeys(("event_time", "timestamp", "time_column", "ts"), ("time",)),
    **dict.fromkeys(("watermark", "allowed_lateness", "delay", "grace"), ("lateness",)),
    **dict.fromkeys(("group_by", "partition_by", "keys", "columns", "over"), ("by", "key", "on", "per")),
    **dict.fromkeys(("primary_key", "id", "key_columns"), ("key",)),
    **dict.fromkeys(("num_partitions", "partition_count"), ("partitions",)),
    **dict.fromkeys(("group_id", "consumer_group"), ("group",)),
    **dict.fromkeys(("subset",), ("on",)),
    **dict.fromkeys(("auto_offset_reset", "from_offset", "starting_offsets", "since"), ("start",)),
    **dict.fromkeys(("slide", "step", "advance", "hop"), ("every",)),
    **dict.fromkeys(("length", "duration", "period"), ("size",)),
    **dict.fromkeys(("filter", "condition"), ("where",)),
    **dict.fromkeys(("sink", "output", "target", "store"), ("to",)),
}
"""What arguments are called elsewhere, and here, where a call has one of these."""

NAMED = {
    "agg": 'Write agg(n=rr.count(), total=rr.sum("amount"))',
    "with_columns": 'Write with_columns(total="price * quantity")',
}
"""How calls are written that name what they make."""
