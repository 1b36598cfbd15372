"""Why a script cannot run as it is written: its encoding, its line ends, its first line. Pure.

Used by ``grass.api.program_check``, ``grass.manifest.script`` and ``node.runtime.spawn``.
"""

from __future__ import annotations

from grass.lines import lines_of

HEAD = 256
"""Bytes of a first line that Linux reads, at most."""
NO_INTERPRETER = "line 1: a script begins with `#!` and its interpreter, such as `#!/bin/sh`"
_BOM, _UTF_16 = b"\xef\xbb\xbf", (b"\xff\xfe", b"\xfe\xff")
_CARRIAGE = "ends with a carriage return, as on Windows"
_CONVERT = "convert the file with `sed -i 's/\\r$//' FILE`"


def first_line_fault(head: bytes) -> str:
    """Return what is wrong with the first line of a file that begins with ``head``, and what to do. Empty: nothing.

    A program that is no script has no fault either, nor has a script without `#!`, which a shell may run.
    """
    if head.startswith(_UTF_16):
        return "line 1: begins with the byte order mark of UTF-16; save the file as UTF-8"
    if head.startswith(_BOM + b"#!"):
        return "line 1: begins with a byte order mark, so its `#!` is not seen; save the file as UTF-8 without it"
    if not head.startswith(b"#!"):
        return ""
    line = head.partition(b"\n")[0]
    if not line[2:].strip():
        return "line 1: `#!` names no interpreter; write `#!/bin/sh`, for example"
    if line.endswith(b"\r"):
        wanted = line[2:].strip().decode(errors="replace")
        return f"line 1: {_CARRIAGE}, which would belong to the name of the interpreter ({wanted}); {_CONVERT}"
    return ""


def carriage_return_fault(text: str) -> str:
    """Return where a shell's script begins to have line ends that a shell takes for part of the commands. Empty: it has
    none, or few: a document in it may need them."""
    ends = [line.endswith("\r") for line in text.split("\n") if line]
    if 2 * sum(ends) <= len(ends):
        return ""
    number = next(at for at, line in enumerate(text.split("\n"), 1) if line.endswith("\r"))
    return f"line {number}: {_CARRIAGE}, which the shell takes for a part of the command; {_CONVERT}"


def encoding_fault(content: bytes) -> str:
    """Return which line is not UTF-8, and what to do. Empty: it all is."""
    try:
        content.decode()
    except UnicodeDecodeError as error:
        number = len(lines_of(content[: error.start] + b"."))
        byte = f"byte 0x{content[error.start]:02x}"
        return f"line {number}: is not UTF-8 text ({byte}); convert the file, such as with `iconv -f latin1 -t utf8`"
    return ""


def interpreter_of(text: str) -> tuple[str, ...]:
    """Return the interpreter of a script and, if its first line has more words, these as one argument, as Linux does.

    Empty: the first line names none."""
    line = text.partition("\n")[0]
    return tuple(line[2:].strip(" \t\r").split(None, 1)) if line.startswith("#!") else ()


def has_no_interpreter(content: bytes) -> str:
    """Return what is wrong with text that is run without a shell. Empty: it is no text, or its first line says how."""
    if not content or b"\0" in content or content.startswith(b"#!"):
        return ""
    return NO_INTERPRETER
