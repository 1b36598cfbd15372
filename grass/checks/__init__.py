"""Decide what is wrong with nodes from what they measured. Pure: no I/O, no clock, no threads.

The client uses it to choose which nodes measure together next, the API server to judge. docs/adr/0029-node-checks.md
has the reasons.
"""
