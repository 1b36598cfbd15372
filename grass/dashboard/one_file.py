"""Files of the page, written into a document: those that a network may not lose, and all of a report.

Used by ``app`` and ``report_page``.
"""

from __future__ import annotations

import base64
import hashlib
import posixpath
import re
from importlib.resources import files

PAGE = files("grass.dashboard") / "page"
_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "([\w./]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?\w+ (\w+))", re.MULTILINE)


def read(name: str) -> str:
    return PAGE.joinpath(*name.split("/")).read_text("utf-8")


def source(text: str) -> str:
    """Return what a Content-Security-Policy names to allow this script or style in the document."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def bundle(entry: str) -> str:
    """Return a module and all that it imports as one script: each module as a function that returns what it exports."""
    made: dict[str, str] = {}

    def add(name: str) -> str:
        variable = re.sub(r"\W", "_", name)
        if name not in made:

            def imported(found: re.Match[str]) -> str:
                path = posixpath.normpath(posixpath.join(posixpath.dirname(name), found[2]))
                return f"const {{ {found[1]} }} = {add(path)};"

            code = _IMPORT.sub(imported, read(name))
            exported = ", ".join(_EXPORT.findall(code))
            made[name] = f"const {variable} = (() => {{\n{_EXPORT.sub('', code)}return {{ {exported} }};\n}})();\n"
        return variable

    add(entry)
    return "".join(made.values())
