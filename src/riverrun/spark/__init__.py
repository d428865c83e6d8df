"""Spark, and nothing else: the only folder that imports pyspark.

`session` starts it, `source` reads topics, `compile` turns a job into one streaming query, `query` keeps it running.
"""
