"""Making, checking and removing clusters, from the user's machine. ``registry`` chooses by the mode of a cluster.

Called by the CLI; some modules run on the machines of a cluster, as programs of their own. Daemons must not depend on
how their cluster was made, except for what supervises them (``revival``, ``shutdown``, ``daemon_ends``).
"""
