"""Read the FILEs of `grass apply` and `grass job start`: documents of any dialect, scripts, standard input."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grass import entropy
from grass.cli.environment_options import environment_of
from grass.errors import GrassError, InputError, ManifestError

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Source:
    """One document. ``name``: of its file, for messages. ``folder``: where its relative paths begin. ``env``: of
    `#GRASS` lines. ``sends``: what it sends of this machine, as words."""

    document: Mapping[str, Any]
    name: str
    folder: Path
    env: Mapping[str, str]
    sends: Sequence[str] = ()

    @contextmanager
    def named(self) -> Iterator[None]:
        """Give problems of the document the name of its file."""
        try:
            yield
        except ManifestError as error:
            if error.source:
                raise
            raise ManifestError(error.problems, self.name) from error


def sources_of(file: Path) -> list[Source]:
    """Return what a FILE says: several documents of a YAML file, or one job of a script. Raises InputError."""
    from grass.document_file import read_bytes
    from grass.manifest import script
    from grass.manifest.document import read_documents
    from grass.manifest.sent import sent_of

    piped = str(file) == STANDARD_INPUT
    content = sys.stdin.buffer.read() if piped else read_bytes(file)
    name, folder = ("standard input", Path()) if piped else (str(file), file.parent)
    if script.is_script(content):
        return [_script(name, folder, content)]
    is_json = content.lstrip()[:1] == b"{" if piped else file.suffix == ".json"
    found = read_documents(content, source=name, json=is_json)
    names = [name] if len(found) == 1 else [f"{name}: document {at}" for at in range(1, len(found) + 1)]
    return [Source(document, each, folder, {}, sent_of(document)) for document, each in zip(found, names, strict=True)]


def _script(source: str, folder: Path, content: bytes) -> Source:
    """Return the job of a script. Raises InputError for `#GRASS` lines that say nothing that `grass run` knows."""
    from grass.cli import run_options
    from grass.manifest import Wrong, script
    from grass.manifest.sent import sent_of

    try:
        text = content.decode()
        words = script.directives(text)
        name = script.job_name(source) if source != "standard input" else ""
        command = script.script_command(name or "script", text)
    except (Wrong, UnicodeDecodeError) as error:
        raise InputError(f"{source}: {error}") from error
    options, asked, every = run_options.parsed(words, f"{source}: #GRASS")
    try:
        env = environment_of(asked, every)
    except GrassError as error:
        raise InputError(f"{source}: #GRASS: {error}") from error
    called = options.name or name or entropy.run_id("script")
    document = run_options.document_of(called, command, options)
    named = [each for each in asked if "=" not in each]
    return Source(document, source, folder, env, sent_of(document, named, whole_shell=every))
