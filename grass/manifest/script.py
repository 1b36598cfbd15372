"""Scripts as jobs: their `#GRASS` lines, and commands that carry a file or standard input along. Pure. Used by the CLI.

The text travels inside the command, so that the task needs no file of the submitting machine.
"""

from __future__ import annotations

import itertools
import re
import shlex
from base64 import b64encode
from collections.abc import Iterator, Sequence

from grass.lines import lines_of, whole_lines_of
from grass.manifest.values import MAX_ARGUMENT, Wrong
from grass.model.secrets import redacted

DIRECTIVE = "#GRASS"
_FOREIGN = ("#SBATCH", "#HQ", "#PBS", "#BSUB")
MAX_STDIN = 512 << 10
"""Bytes. In base64 they fit into a submission; more belongs into the share."""
_PIECE = 95 << 10
"""Bytes of one argument before base64, which makes them a third longer."""
_VARIABLE = re.compile(r"^((?:--env=)?(\w+)=)(.*)$", re.DOTALL)
"""A word that says a variable with its value."""
_PLAIN = re.compile(r"[\w@%+=:,./\[\]-]+")
_RUN_SCRIPT = 'printf %s "$1" > "$GRASS_SCRATCH/$2" && chmod 700 "$GRASS_SCRATCH/$2" && exec "$GRASS_SCRATCH/$2"'
_RUN_WITH_INPUT = (
    'n=$1; shift; : > "$GRASS_SCRATCH/.stdin"; '
    'while [ "$n" -gt 0 ]; do '
    'printf %s "$1" | base64 -d >> "$GRASS_SCRATCH/.stdin" || exit 126; shift; n=$((n-1)); '
    "done; "
    'exec "$@" < "$GRASS_SCRATCH/.stdin"'
)


def is_script(content: bytes) -> bool:
    return content.startswith(b"#!")


def directives(text: str) -> list[str]:
    """Return the words of all `#GRASS` lines before the first command of the script. Raises Wrong."""
    return [word for number, line in _directive_lines(text) for word in _words(number, line)]


def foreign_directive(text: str) -> str:
    """Return the word with which a line before the first command speaks to another scheduler; empty: none does."""
    head = itertools.takewhile(lambda line: line.startswith("#") or not line.strip(), lines_of(text))
    return next((word for line in head for word in _FOREIGN if line.startswith(f"{word} ")), "")


def without_secrets(text: str) -> str:
    """Return the script without the secrets in its `#GRASS` lines. It runs as before: they are comments. Raises Wrong.

    The rules are those of ``grass.model.secrets``, for values of variables.
    """
    lines = whole_lines_of(text)
    for number, line in _directive_lines(text):
        words = _words(number, line)
        shown = [_VARIABLE.sub(_value_hidden, word) for word in words]
        if shown != words:
            lines[number - 1] = f"{DIRECTIVE} {' '.join(map(_quoted, shown))}{line[len(line.rstrip()) :]}"
    return "".join(lines)


def _directive_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield number and text of each `#GRASS` line before the first command."""
    for number, line in enumerate(whole_lines_of(text), 1):
        if line.strip() and not line.startswith("#"):
            break
        if line.startswith(DIRECTIVE) and line[len(DIRECTIVE) :][:1] in (" ", "\t"):
            yield number, line


def _words(number: int, line: str) -> list[str]:
    try:
        return shlex.split(line[len(DIRECTIVE) :], comments=True)
    except ValueError as error:
        raise Wrong(f"line {number}: {error}") from error


def _value_hidden(variable: re.Match[str]) -> str:
    return f"{variable[1]}{redacted({variable[2]: variable[3]})[variable[2]]}"


def _quoted(word: str) -> str:
    return word if _PLAIN.fullmatch(word) else shlex.quote(word)


def script_command(name: str, text: str) -> list[str]:
    """Return a command that writes the script into the task's scratch folder and runs it there. Raises Wrong."""
    if len(text.encode()) > MAX_ARGUMENT:
        raise Wrong(f"must be at most {MAX_ARGUMENT // 1024} KiB long; let the script call a program in a file")
    return ["/bin/sh", "-c", _RUN_SCRIPT, "sh", text, name]


def with_input(command: Sequence[str], data: bytes) -> list[str]:
    """Return the command with ``data`` as its standard input. Raises Wrong."""
    if len(data) > MAX_STDIN:
        raise Wrong(f"standard input must be at most {MAX_STDIN // 1024} KiB long; send files with `grass data push`")
    pieces = [b64encode(data[at : at + _PIECE]).decode() for at in range(0, len(data), _PIECE)]
    return ["/bin/sh", "-c", _RUN_WITH_INPUT, "sh", str(len(pieces)), *pieces, *command]


def job_name(file_name: str) -> str:
    """Return a job's name made of the name of a script; empty if nothing of it can be used."""
    stem = file_name.rpartition("/")[2].rpartition(".")[0] or file_name.rpartition("/")[2]
    return re.sub(r"[^A-Za-z0-9_-]+", "-", stem)[:63].strip("-_")
