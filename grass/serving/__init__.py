"""HTTP servers of the daemons: an event loop reads whole requests, and threads answer them."""
