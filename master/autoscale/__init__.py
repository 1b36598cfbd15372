"""Rules that change the size of components by themselves (``autoscale`` of a job file). Only ``reading`` reads a store.

Outside of what the master-agent decides: what follows is an operation, as a user files it.
"""
