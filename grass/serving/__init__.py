"""HTTP servers of the daemons: an event loop reads whole requests, and threads answer them.

Used by the master-api-server and the node-api-server. It knows neither routes nor users. A peer that is slow must cost
a socket and no thread.
"""
