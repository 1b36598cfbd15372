"""Put variables of the submitting shell into a document, before it is sent. Pure.

Called by the Python client. The cluster sees only the values, because it cannot read the user's shell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy

from grass.errors import InputError, ManifestError, Problem
from grass.manifest import values
from grass.manifest.document import Document, join
from grass.manifest.values import Wrong

KEY = "inherit_env"


def with_shell(document: Document, shell: Mapping[str, str], added: Mapping[str, str]) -> Document:
    """Return the document with the values of ``inherit_env`` and with ``added`` in each component's ``env``.

    ``added`` replaces variables of the file. ``env`` of the file goes before ``inherit_env``. Raises ManifestError for
    a named variable that the shell lacks. Whatever has the wrong type stays, for the readers to report.
    """
    if not added and not any(KEY in part for _, part in components(document)):
        return document
    document = deepcopy(document)
    missing: list[Problem] = []
    for path, part in components(document):
        env = part.get("env", {})
        if isinstance(env, dict):
            part["env"] = {**_inherited(part, path, shell, missing), **env, **added}
    if missing:
        raise ManifestError(missing)
    return document


def assignments(options: tuple[str, ...], shell: Mapping[str, str]) -> dict[str, str]:
    """Parse ``NAME=VALUE`` and ``NAME``; the shell has the value of the latter. Raises InputError."""
    return dict(_assignment(option, shell) for option in options)


def passable(shell: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a job may set: without those of Grass, and without functions of the shell."""
    return {name: value for name, value in shell.items() if _can_set(name, value)}


def _assignment(option: str, shell: Mapping[str, str]) -> tuple[str, str]:
    name, given, value = option.partition("=")
    try:
        values.variable_name(name)
        if not given and name not in shell:
            raise Wrong("is not set in this shell; write NAME=VALUE")
        return name, values.scalar_text(value if given else shell[name])
    except Wrong as wrong:
        raise InputError(f"--env {name}: {wrong}") from wrong


def _can_set(name: str, value: str) -> bool:
    try:
        values.variable_name(name)
        values.scalar_text(value)
    except Wrong:
        return False
    return True


def components(document: Document) -> Iterator[tuple[str, Document]]:
    """Yield path and content of each component, of a job or of a schedule's ``job``."""
    for prefix, holder in (("", document), ("job", document.get("job"))):
        parts = holder.get("components") if isinstance(holder, dict) else None
        for name, part in parts.items() if isinstance(parts, dict) else ():
            if isinstance(part, dict):
                yield join(join(prefix, "components"), str(name)), part


def inherited_names(part: Document) -> list[str]:
    """Return the variables that a component takes from the shell. None, if the key has the wrong type."""
    names = part.get(KEY)
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        return []
    return list(names)


def _inherited(part: Document, path: str, shell: Mapping[str, str], missing: list[Problem]) -> dict[str, str]:
    names = inherited_names(part)
    own = part.get("env") or {}
    missing += [
        Problem(f"{path}.{KEY}[{at}]", f"{name} is not set in the shell that submits the job; set it, or use `env`")
        for at, name in enumerate(names)
        if name not in shell and name not in own
    ]
    return {name: shell[name] for name in names if name in shell}
