"""Attempts as processes of the host: the client of the shepherd."""
