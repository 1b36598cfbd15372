"""The words of Grass: names, states, reasons, resources, jobs and settings, as plain types and rules. Pure.

Used by every other package. It must import no package of Grass above it, do no input or output, and read no clock.
"""
