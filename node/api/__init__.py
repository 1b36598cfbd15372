"""The node-api-server: what the cluster's own programs ask of this machine. Users talk to the master's API only."""
