"""Derived stores: views of a flow in other systems than its home store.

Read `marker` (what each store writes down beside the rows, and what follows from it), `store` (the contract), then
`routed`, which puts them and the home store together. The stores: `redis`, `search`, `delta`; `views.sql.derived`.
"""
