"""Memberships on a node: files and environment of tasks, and the membership API that tasks call.

Used by the node-agent. Nothing here decides about members: the master-agent does. ``grass.frameworks`` renders.
"""
