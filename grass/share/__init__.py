"""Data files that an installed Grass carries: templates."""
