"""A cluster on existing machines: facts of a host → steps → a runner. Called by the CLI."""
