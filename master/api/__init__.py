"""The master-api-server: checks requests, files tickets for the master-agent, and shows records as views.

It changes no job, task or node itself. Each noun has a module of handlers; ``routes`` has the table of all routes.
"""
