"""The master-agent: decides where tasks run, and is the only writer of the state of jobs, tasks and nodes.

``loop`` does the input and output of a round; ``reactor`` and all that it calls change the memory (``state``) and
collect effects in a ``Step``. An import contract names the few modules that do input or output, or read a clock.
"""

from grass.system.environment import compute_in_one_thread

compute_in_one_thread()  # before the planner imports numpy
