"""Runtimes: run the attempts of a node, as processes (through the shepherd) or containers, behind one protocol.

Used by the node-agent and the node-api-server, which choose by name (``registry``). A runtime knows neither of them.
"""
