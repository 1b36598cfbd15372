"""The process runtime: attempts as processes, started by the shepherd. Chosen by ``node.runtime.registry``."""
