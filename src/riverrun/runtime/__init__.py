"""A flow made ready to run, without Spark: branches and stages, the plan of an epoch, the host of kernels, the commit.

Read `compile` (a flow as branches and stages), `planner` (what an epoch reads, and its clock), `source`, `projection` and
`packing` (rows on their way), `host` (a shard of a stage), `epoch` (all of it in one task), `commit` (an epoch takes
effect), `status` (how far a flow is).
`spark/` drives these.
"""
