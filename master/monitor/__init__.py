"""The monitor: collects usage samples and figures, keeps them as histories, and serves the page ``/metrics``.

It only observes: it changes no job, task or node, and a cluster works without it.
"""
