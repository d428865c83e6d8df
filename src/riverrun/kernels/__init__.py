"""Stateful operators: each kernel is frozen configuration and one pure `step` over whole batches. No Spark here.

Read `kernel` first (what a step gets and gives), then `tumbling` or `group`; `aggregates` holds what they compute.
"""
