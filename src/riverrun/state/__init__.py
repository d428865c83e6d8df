"""State of stateful operators as immutable Arrow runs. It knows nothing of kernels, flows or Spark.

`table` is the interface, `memory` the plain implementation for tests, `directory` the one on files.
"""
