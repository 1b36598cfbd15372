"""The process runtime: attempts as processes of the host, started by the shepherd."""
