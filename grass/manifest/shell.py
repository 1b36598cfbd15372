"""Put variables of the submitting shell into a document, before it is sent. Pure.

Called by the Python client. The cluster sees only the values, because it cannot read the user's shell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy

from grass.errors import InputError, ManifestError, Problem
from grass.lines import lines_of
from grass.manifest import values
from grass.manifest.document import Document, join, show_text
from grass.manifest.values import Wrong

KEY = "inherit_env"
_OF_SHELL = ("PWD", "OLDPWD", "SHLVL", "_")
"""Variables that say something of the shell itself. A task's are its own."""


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
    """Return the variables that a job may set: without those of Grass, of the shell itself, and its functions.

    Raises InputError for a value that is not UTF-8.
    """
    return {name: _value(name, value) for name, value in shell.items() if _is_passable(name, value)}


def left_out(shell: Mapping[str, str]) -> list[str]:
    """Return the names of the variables that a user may miss: functions that the shell exports, and long values."""
    own = ("GRASS_", *_OF_SHELL)
    return [name for name, value in shell.items() if not name.startswith(own) and not _is_passable(name, value)]


def read_file(text: str) -> dict[str, str]:
    """Parse the lines of a file of variables: ``NAME=VALUE``, as docker reads it. Nothing is expanded, and quotation
    marks belong to the value. Blank lines and lines that begin with `#` are left out. Raises Wrong."""
    found: dict[str, str] = {}
    for number, line in enumerate(lines_of(text), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, equals, value = line.partition("=")
        try:
            if not equals:
                raise Wrong("must be NAME=VALUE")
            found[values.variable_name(name.strip())] = values.scalar_text(value)
        except Wrong as wrong:
            raise Wrong(f"line {number}: {show_text(name)} {wrong}") from wrong
    return found


def _assignment(option: str, shell: Mapping[str, str]) -> tuple[str, str]:
    name, given, value = option.partition("=")
    try:
        values.variable_name(name)
        if not given and name not in shell:
            raise Wrong("is not set in this shell; write NAME=VALUE")
        return name, values.scalar_text(value if given else shell[name])
    except Wrong as wrong:
        raise InputError(f"--env {name}: {wrong}") from wrong


def _is_passable(name: str, value: str) -> bool:
    try:
        values.variable_name(name)
    except Wrong:
        return False
    return name not in _OF_SHELL and len(value) <= values.MAX_ARGUMENT - len(name)


def _value(name: str, value: str) -> str:
    try:
        return values.scalar_text(value)
    except Wrong as wrong:
        raise InputError(f"variable {name} of this shell: {wrong}") from wrong


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
