"""The version of Grass. Used by ``grass``, and by who does not import its public names (``config``, ``store``)."""

VERSION = "0.1.0"
