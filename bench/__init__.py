"""Benchmarks: `python -m bench [names…] [--quick] [--json]`, or `make bench`.

Every figure stands beside a reference measured in the same run, round by round in turn, because absolute numbers mean
little on shared machines. A round counts only after its results were checked.
"""
