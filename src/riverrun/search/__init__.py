"""Stored searches: queries that wait, documents that come past. It knows nothing of kernels, flows or Spark.

`words` says what a word is, `parsing` makes a `tree` of a query, `index` keeps many of them and finds those that a batch
of documents meets: `postings` gives the candidates, `verification` decides.
"""
