"""Clients of the master's API: ``Client``, ``Executor``; and what both ends of a call share.

Called by the CLI, the dashboard and users' programs; the API server and the node-agent share the keys, the sealing and
the tokens. Nothing here knows how a cluster is made (``grass.provision``).
"""
