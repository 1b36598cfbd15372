"""Backups of a cluster: one sealed file with redis as it was at one moment, and the master's files; and their restore.

The format and the rule of reconciliation are in ``docs/adr/0026-backups.md``. Nothing here decides what becomes of a
task: the node-agent and the master-agent do, from the record ``restored`` that a restore leaves in the store.
"""
