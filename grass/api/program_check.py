"""Looks at the programs that a job's commands name, where the tasks run on this machine, before the job is sent.

The kernel says no more than "not found" of a script with the line ends of Windows. Used by ``Client`` and
`grass apply`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from grass.errors import ManifestError, Problem
from grass.manifest.document import Document
from grass.manifest.shell import components
from grass.manifest.values import MAX_ARGUMENT
from grass.model.program import first_program, is_shell
from grass.model.script_faults import carriage_return_fault, first_line_fault, has_no_interpreter, interpreter_of


def check_programs(document: Mapping[str, object], folder: str, shell: Mapping[str, str], source: str) -> None:
    """Raise ManifestError if a command is a script that cannot run. ``folder``: where relative paths begin."""
    problems = [
        Problem(f"{path}.command", problem)
        for path, part in components(dict(document))
        if part.get("image") is None
        for problem in _problems(part, folder, shell)
    ]
    if problems:
        raise ManifestError(problems, source)


def _problems(part: Document, folder: str, shell: Mapping[str, str]) -> Iterator[str]:
    command, env = part.get("command"), part.get("env")
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        words = [str(word) for word in command]
    elif isinstance(command, str) and (program := first_program(command)):
        words = [program]
    else:
        return
    own = env.get("PATH") if isinstance(env, dict) else None
    path = own if isinstance(own, str) else shell.get("PATH")
    for word, called in [(words[0], True), *((word, False) for word in words[1:2] if is_shell(words[0]))]:
        with suppress(OSError, ValueError):
            file = _found(word, str(Path(folder, str(part.get("cwd") or ""))), path if called else None)
            content = _content(file) if file else b""
            if fault := _fault(content, alone=called and isinstance(command, list), by_shell=not called):
                yield f"{word}: {fault}"


def _found(word: str, folder: str, path: str | None) -> Path | None:
    if "/" in word or path is None:
        return Path(folder, word)
    found = shutil.which(word, path=path)
    return None if found is None else Path(folder, found)


def _content(file: Path) -> bytes:
    """Return the beginning of a regular file: opening another one may wait."""
    if not file.is_file():
        return b""
    with file.open("rb") as opened:
        return opened.read(MAX_ARGUMENT)


def _fault(content: bytes, *, alone: bool, by_shell: bool) -> str:
    """Return what is wrong with a program. ``alone``: no shell runs it. ``by_shell``: a shell reads it."""
    if fault := first_line_fault(content):
        return fault
    text = os.fsdecode(content)
    words = " ".join(interpreter_of(text)).split()
    if by_shell or any(map(is_shell, words)):
        return carriage_return_fault(text)
    return has_no_interpreter(content) if alone else ""
