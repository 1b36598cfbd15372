"""The fault matrix: {what breaks} × {what is going on}, on real clusters. What must be true after each is in ``table``.

    python -m tests.faults                          # all of it: 30 minutes; hosts need root
    python -m tests.faults --only 'redis killed/starting'
    python -m tests.faults --only 'node paused'

Each state begins on a real cluster, the fault is injected once in the middle of all of them, and each state is
judged by itself. The results are ``last_run.json``, of which ``page`` makes docs/guide/faults-matrix.md. Every run of
the tests tries some of it (``test_short.py``).
"""
