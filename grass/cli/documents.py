"""Read the FILEs of `grass apply` and `grass job start`: documents of any dialect, scripts, standard input.

Used by ``apply``, ``dashboard_start`` and ``job_start``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from grass.cli.environment_options import environment_of
from grass.errors import GrassError, InputError, ManifestError, Problem
from grass.model.script_faults import NO_INTERPRETER, first_line_fault
from grass.system import entropy

STANDARD_INPUT = "-"


@dataclass(frozen=True)
class Source:
    """One document. ``name``: of its file, for messages. ``folder``: where its relative paths begin. ``env``: of
    `#GRASS` lines. ``sends``: what it sends of this machine, as words. ``file``: name and text
    of the whole file, to be kept with the job."""

    document: Mapping[str, object]
    name: str
    folder: Path
    env: Mapping[str, str]
    sends: Sequence[str] = ()
    file: tuple[str, str] = ("", "")
    warnings: Sequence[str] = ()

    @contextmanager
    def named(self) -> Iterator[None]:
        """Give problems of the document the name of its file."""
        try:
            yield
        except ManifestError as error:
            if error.source:
                raise
            raise ManifestError(error.problems, self.name) from error


def sources_of(file: Path, arguments: Sequence[str] = ()) -> list[Source]:
    """Return what a FILE says: several documents of a YAML file, or one job of a script. ``arguments``: of the script.
    Raises InputError."""
    from grass.document_file import read_bytes

    if str(file) == STANDARD_INPUT:
        return sources_in(sys.stdin.buffer.read(), "standard input", Path(), arguments=arguments)
    return sources_in(read_bytes(file), str(file), file.parent, file.name, file, arguments)


def called(sources: Sequence[Source], name: str) -> list[Source]:
    """Return the only document, with another name for its job. Raises InputError: there are several, or it has none."""
    from grass.manifest.foreign.dialects import is_scale

    if len(sources) != 1 or is_scale(sources[0].document):
        raise InputError("--name: is for one job; these files say something else")
    [source] = sources
    document, metadata = dict(source.document), source.document.get("metadata", {})
    if "kind" in document and isinstance(metadata, Mapping):  # of Kubernetes
        document["metadata"] = {**metadata, "name": name}
    else:
        document["name"] = name
    return [replace(source, document=document)]


def sources_in(
    content: bytes,
    name: str,
    folder: Path,
    file_name: str = "",
    file: Path | None = None,
    arguments: Sequence[str] = (),
) -> list[Source]:
    """Return what the content of a file says. ``name``: for messages. ``file_name``: empty for other content.
    ``file``: where it is, if it is on this machine. ``arguments``: for a script."""
    from grass.manifest import script
    from grass.manifest.document import read_documents
    from grass.manifest.sent_data import sent_of

    if script.is_script(content):
        return [_script(name, folder, content, file_name, file, arguments)]
    if arguments:
        raise InputError(f"{name}: arguments behind `--` are for scripts; a job file has them in its commands")
    if script.lacks_interpreter(content, file_name):
        raise InputError(f"{name}: {first_line_fault(content) or NO_INTERPRETER}; a job file is YAML or JSON")
    is_json = file_name.endswith(".json") if file_name else content.lstrip()[:1] == b"{"
    try:
        found = read_documents(content, source=name, json=is_json)
    except ManifestError as error:
        raise error if file_name.endswith((".yml", ".yaml", ".json")) else _maybe_script(error) from error
    names = [name] if len(found) == 1 else [f"{name}: document {at}" for at in range(1, len(found) + 1)]
    whole = (file_name, content.decode("utf-8-sig"))
    return [
        Source(document, each, folder, {}, sent_of(document), whole)
        for document, each in zip(found, names, strict=True)
    ]


def _maybe_script(error: ManifestError) -> ManifestError:
    """Return the error with advice for a script: the name of its file does not say what it is."""
    *others, last = error.problems
    advice = Problem(last.path, f"{last.message}; if this is a script: {NO_INTERPRETER}")
    return ManifestError([*others, advice], error.source)


def _script(
    source: str, folder: Path, content: bytes, file_name: str, file: Path | None, arguments: Sequence[str]
) -> Source:
    """Return the job of a script. Raises InputError for `#GRASS` lines that say nothing that `grass run` knows."""
    from grass.cli import run_options
    from grass.manifest import Wrong, script
    from grass.manifest.sent_data import sent_of

    try:
        text = script.script_text(content)
        words = script.directives(text)
        name = script.job_name(file_name)
        path = "" if file is None else str(file.absolute())
        command = script.script_command(name or "script", script.without_secrets(text), path, arguments)
    except Wrong as error:
        raise InputError(f"{source}: {error}") from error
    warnings: list[str] = []
    options, asked, env_files, every = run_options.parsed(words, f"{source}: #GRASS")
    try:
        env = environment_of(asked, env_files, every, lambda each: warnings.append(f"{source}: {each}"), folder)
    except GrassError as error:
        raise InputError(f"{source}: #GRASS: {error}") from error
    document = run_options.document_of(options.name or name or entropy.run_id("script"), command, options)
    named = [each for each in asked if "=" not in each]
    sends = [*sent_of(document, named, whole_shell=every), *(f"the variables in {each}" for each in env_files)]
    if other := script.foreign_directive(text):
        warnings.append(f"{source}: {other} lines are ignored; write these options into #GRASS lines")
    return Source(document, source, folder, env, sends, (file_name, text), warnings)
