"""The client of a Kubernetes API server: credentials, requests, and the watch of a list of objects.

It knows nothing of jobs. ``credentials`` takes what ``kubernetes.config`` finds, ``api`` sends requests, ``informer``
keeps a copy of a list that follows its changes. Shared by what adds a namespace
and what serves it.
"""
