"""Stacks of the processes of running attempts. They are looked at from outside; no process is stopped for it."""
