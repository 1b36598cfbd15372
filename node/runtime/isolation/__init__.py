"""Process tasks under accounts of their users, each job with its own view of the node's files (docs/adr, 22).

Only the shepherd uses this package. It has the rights of root for a moment at a time (``privilege``)."""
