"""What a document sends of the submitter's machine: variables of the shell, and lines of files. Pure.

Somebody else may have written the document. So the CLI says what it sends (``grass.cli.documents``). Used by
``grass.cli.documents``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grass.manifest import entries, shell


def sent_of(document: Mapping[str, object], variables: Sequence[str] = (), *, whole_shell: bool = False) -> list[str]:
    """Return what is sent, as words. ``variables``, ``whole_shell``: what `#GRASS` lines ask for besides."""
    names, files = dict.fromkeys(variables), dict[str, None]()
    for _, part in shell.components(dict(document)):
        names.update(dict.fromkeys(shell.inherited_names(part)))
        files.update(dict.fromkeys(entries.files_of(part).values()))
    said = ["all variables of this shell"] if whole_shell else []
    if names and not whole_shell:
        said.append(f"{', '.join(names)} of this shell")
    return [*said, *(f"the entries in {name}" for name in files)]
