"""A flow made ready to run, without Spark: branches and stages, the plan of an epoch, the host of kernels, the commit.

Read `branch` (how rows get from an origin to a kernel or an end), `job` (a flow as stages), `planner` (what an epoch
reads, and its clock), `host` (a shard of a stage), `commit` (an epoch takes effect), `status` (how far a flow is).
`spark/` drives these.
"""
