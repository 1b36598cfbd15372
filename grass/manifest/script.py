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
from grass.model.program import is_shell
from grass.model.script_faults import HEAD, carriage_return_fault, encoding_fault, first_line_fault, interpreter_of
from grass.model.secrets import redacted

DIRECTIVE = "#GRASS"
_BOM = b"\xef\xbb\xbf"
_FOREIGN = ("#SBATCH", "#HQ", "#PBS", "#BSUB")
MAX_STDIN = 512 << 10
"""Bytes. In base64 they fit into a submission; more belongs into the share."""
_PIECE = 95 << 10
"""Bytes of one argument before base64, which makes them a third longer."""
_VARIABLE = re.compile(r"^((?:--env=)?(\w+)=)(.*)$", re.DOTALL)
"""A word that says a variable with its value."""
_PLAIN = re.compile(r"[\w@%+=:,./\[\]-]+")
_RUN_SCRIPT = r"""text=$1 name=$2 file=$3 with=$4; shift 4
own() { LC_ALL=C sed '/^#GRASS[[:blank:]]/d'; echo .; }
if [ -n "$file" ]; then export GRASS_SCRIPT="$file"; fi
if [ -f "$file" ] && [ -r "$file" ]; then
  if [ "$(own < "$file")" = "$(printf '%s' "$text" | own)" ]; then eval "exec $with \"\$file\" \"\$@\""; fi
  echo "grass: $file was changed since the job was submitted; this task runs the script as it was submitted" >&2
fi
printf '%s' "$text" > "$GRASS_SCRATCH/$name" && eval "exec $with \"\$GRASS_SCRATCH/\$name\" \"\$@\""
"""
"""Run the file itself if it is there and is what was submitted, so that `$0` and files beside it are as in a terminal.
Its `#GRASS` lines, which may have lost secrets, are comments."""
_SCRIPT_SUFFIXES = (".sh", ".bash", ".zsh", ".ksh", ".csh", ".py", ".pl", ".rb", ".r", ".lua", ".jl")
_RUN_WITH_INPUT = (
    'n=$1; shift; : > "$GRASS_SCRATCH/.stdin"; '
    'while [ "$n" -gt 0 ]; do '
    'printf %s "$1" | base64 -d >> "$GRASS_SCRATCH/.stdin" || exit 126; shift; n=$((n-1)); '
    "done; "
    'exec "$@" < "$GRASS_SCRATCH/.stdin"'
)


def is_script(content: bytes) -> bool:
    """Return whether a file is a script: by `#!`, also behind a byte order mark."""
    return content.removeprefix(_BOM).startswith(b"#!")


def lacks_interpreter(content: bytes, file_name: str) -> bool:
    """Return whether a file, which is no script by its first line, is one by its name or by its `#GRASS` lines."""
    name = file_name.lower()
    asks = content.startswith(b"#GRASS ") or b"\n#GRASS " in content
    return name.endswith(_SCRIPT_SUFFIXES) or (asks and not name.endswith((".yml", ".yaml", ".json")))


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


def script_command(name: str, text: str, path: str = "", arguments: Sequence[str] = ()) -> list[str]:
    """Return a command that runs a script with its interpreter and arguments: the file ``path`` where the task sees it
    as it was submitted, otherwise a copy in its scratch folder. Raises Wrong."""
    if len(text.encode()) > MAX_ARGUMENT:
        raise Wrong(f"must be at most {MAX_ARGUMENT // 1024} KiB long; let the script call a program in a file")
    return ["/bin/sh", "-c", _RUN_SCRIPT, "sh", text, name, path, shlex.join(interpreter_of(text)), *arguments]


def script_text(content: bytes) -> str:
    """Return the text of a script. Raises Wrong for what its interpreter would stumble over, with the line."""
    if fault := first_line_fault(content[:HEAD]) or encoding_fault(content):
        raise Wrong(fault)
    text = content.decode()
    words = " ".join(interpreter_of(text)).split()
    if any(map(is_shell, words)) and (fault := carriage_return_fault(text)):
        raise Wrong(fault)
    return text


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
