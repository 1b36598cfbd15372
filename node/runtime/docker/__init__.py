"""Attempts as containers of the node's engine."""
