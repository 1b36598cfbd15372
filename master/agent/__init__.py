from grass.environment import compute_in_one_thread

compute_in_one_thread()  # before the planner imports numpy
