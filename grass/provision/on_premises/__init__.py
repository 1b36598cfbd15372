"""A cluster on machines that you have: facts of a host → steps → a runner. Called by the CLI."""
