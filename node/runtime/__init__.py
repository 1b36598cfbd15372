"""Runtimes: run the attempts of a node, as processes (through the shepherd) or containers, behind one protocol."""
