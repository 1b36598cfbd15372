"""Process tasks under accounts of their users, each job with its own view of the node's files (docs/adr, 22).

The shepherd starts tasks with it, and has the rights of root for a moment at a time (``privilege``). The docker runtime
and the node-agent use only what is decided without these rights: what a view shows, and the folders of the share.
"""
