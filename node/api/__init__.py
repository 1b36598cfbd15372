"""The node-api-server: answers the master's API about this machine. Users talk to the master's API only."""
