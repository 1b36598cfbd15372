"""The docker runtime: attempts as containers of the node's engine. Chosen by ``node.runtime.registry``."""
