"""A cluster on existing machines: facts of a host → steps → a runner. Called by the CLI.

Designs and steps are made by pure code before anything changes. All that is made on a host is in its record first, so
that removal is exact (``record``).
"""
