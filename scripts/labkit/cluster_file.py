"""The settings file for ``grass create`` that fits a lab."""

from __future__ import annotations

from pathlib import Path

from .host import OPERATOR, Host


def cluster_file(name: str, master: Host, nodes: list[Host], key: Path) -> str:
    """Return a settings file of mode ``grass/on-premises`` with every host of the lab, as YAML."""
    lines = [
        f"# The hosts of the lab {name!r}: `grass create` takes this file.",
        "mode: grass/on-premises",
        f"name: {name}",
        f"ssh: {{user: {OPERATOR}, key: {key}, become: sudo}}",
        f"master: {{name: {master.name}, address: {master.address}}}",
        "nodes:",
        *(f"  - {{name: {node.name}, address: {node.address}}}" for node in nodes),
    ]
    return "\n".join(lines) + "\n"
