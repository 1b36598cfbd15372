"""Rules that find jobs that stand still, and the cause. Pure: the monitor feeds them, and files what follows.

Outside of what the master-agent decides: a wrong finding costs a message, or a restart that the user allowed.
"""
