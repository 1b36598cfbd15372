"""Calls from the master to node-api-servers, of the API and of the monitor."""
