"""What runs tasks on a node: one protocol, behind it real processes (through the shepherd) or simulated ones."""
