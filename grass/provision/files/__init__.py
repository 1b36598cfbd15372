"""Files in the share of a cluster, from the user's machine: data sets, what jobs wrote, images.

Bytes travel by rsync (over SSH, or from folder to folder for a cluster on this machine); the few other operations are
those of ``share.py``, carried out beside the share by ``serve.py``. Called by the CLI only.
"""
