"""What runs inside tasks: files that users may copy, and ``library/`` with the programs that Grass gives to tasks.

All of it runs with old Pythons and without the rest of Grass. Nothing is here: each program that reports a figure
would load it.
"""
