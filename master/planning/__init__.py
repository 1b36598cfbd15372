"""The planner: from a snapshot of nodes and waiting jobs to a plan, with a reason for every task that waits. Pure.

Called by the master-agent through ``decide``. It does no input or output and reads no clock; it changes nothing but
its own tables.
"""
