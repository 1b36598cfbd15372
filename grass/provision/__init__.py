"""Making, checking and removing clusters, from the user's machine. ``registry`` chooses by the mode of a cluster.

Called by the CLI; some modules run on the machines of a cluster, as programs of their own. Daemons import none of it,
and start some of these programs by name (``grass.supervision``).
"""
