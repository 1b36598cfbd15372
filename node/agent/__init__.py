"""The node-agent: makes its node's runtime match the desired state, and reports what happens.

It decides nothing about jobs: the master-agent does. Its loop never waits for redis: threads do.
"""
