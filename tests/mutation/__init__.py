"""Runs of mutmut over the code that decides, and what they may leave alive."""
