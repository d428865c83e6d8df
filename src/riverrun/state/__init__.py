"""State of stateful operators as immutable Arrow runs. It knows nothing of kernels, flows or Spark.

`table` is the interface and `directory` what it is on files: sorted runs (`sorted_run`) in layers (`layers`), merged now and
then (`merge`). `frames`, `keys` and `order` are what state and kernels compute with: columns, rows by key, sorting.
"""
