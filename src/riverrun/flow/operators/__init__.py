"""The operators of a flow, one node class for each thing it can compute, a file for each that keeps state.

A node says by its class attributes and properties what the compiler has to know of it (`node.py` lists them), so the
compiler never asks which class a node is. docs/extending.md adds one.
"""
