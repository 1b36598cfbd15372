"""Files in the share of a cluster, from the user's machine: data sets, output of jobs, images.

rsync transfers the bytes (over SSH, or between folders for a cluster on this machine). The few other operations are in
``share.py``; ``serve.py`` runs them on the host of the share. Called by the CLI and by the client.
"""
