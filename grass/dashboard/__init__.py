"""The dashboard: a web page that is served from the user's own machine. Started by `grass dashboard`.

It speaks to the cluster through ``grass.api.client`` only, with the user's rights.
"""
