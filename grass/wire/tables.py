"""Renders ``docs/reference/wire.md`` from the types of this package: ``python -m grass.wire.tables [--check]``.

Run by hand after a change of a type; ``scripts/check`` runs it with ``--check``. Nothing of a running cluster uses it.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "wire.md"
MODULES = (
    *(
        "keys",
        "moment",
        "tickets",
        "job_record",
        "job_file",
        "task_record",
        "attempt_record",
        "operation_record",
        "node_record",
        "node_speed",
        "checks",
        "schedule_record",
    ),
    *("usage_record", "event_record", "notification", "plan_answer", "desired", "launch", "membership", "reports"),
    *("membership_api", "node_api", "stacks", "finding", "standby", "cloud", "witness", "hello"),
    *(
        "heartbeat",
        "gpu",
        "machines",
        "offer_report",
        "task_events",
        "usage",
        "feed_entry",
        "log_block",
        "daemon_line",
        "daemon_end",
        "envelope",
        "profile",
    ),
    *("usage_history", "own_curves", "own_media", "api_figures", "backup", "queue_api", "task_notice", "notice"),
)
_HEAD = """# Messages and records

What the processes of a cluster say to each other, and what they keep in redis. Generated from `grass/wire/` by
`python -m grass.wire.tables`; do not edit. Everything is JSON. A field with a default may be absent. `Job`, `Component`
and the other types of `grass.model` are JSON objects of their fields; a `Reason` is `{"code", "message", "details"}`.
"""


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(_module(name) for name in MODULES)


def _module(name: str) -> str:
    tree = ast.parse((Path(__file__).parent / f"{name}.py").read_text())
    parts = [f"\n## {name.replace('_', ' ').capitalize()}\n\n{_prose(ast.get_docstring(tree))}\n"]
    for statement in tree.body:
        match statement:
            case ast.ClassDef() if any(isinstance(part, ast.AnnAssign) for part in statement.body):
                parts.append(_type(statement))
            case ast.ClassDef() if any(isinstance(part, ast.Assign) for part in statement.body):
                parts.append(_choices(statement))
            case ast.Assign(targets=[ast.Name(id=union)], value=ast.BinOp(op=ast.BitOr()) as value):
                parts.append(f"\n`{union}` = `{ast.unparse(value)}`\n")
            case _:
                pass
    return "".join(parts)


def _type(made: ast.ClassDef) -> str:
    options = {each.arg: ast.unparse(each.value).strip("'") for each in made.keywords}
    title = f"\n### {made.name}\n\n"
    if "tag" in options:
        title += f'`"{options["tag_field"]}": "{options["tag"]}"`. '
    text = title + _prose(ast.get_docstring(made))
    if options.get("array_like") == "True":
        text = f"{text.rstrip()} As JSON: a list of these, in this order."
    rows = [f"| `{name}` | `{shape}` | {default} | {said} |\n" for name, shape, default, said in _fields(made)]
    return text.rstrip() + "\n\n| field | type | default | meaning |\n|---|---|---|---|\n" + "".join(rows)


def _fields(made: ast.ClassDef) -> Iterator[tuple[str, str, str, str]]:
    for at, part in enumerate(made.body):
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            after = made.body[at + 1] if at + 1 < len(made.body) else None
            shape = ast.unparse(part.annotation).replace("|", "\\|")
            default = f"`{ast.unparse(part.value)}`" if part.value is not None else ""
            yield part.target.id, shape, default, _prose(_text(after))


def _choices(made: ast.ClassDef) -> str:
    names = [ast.unparse(part.value).strip("'") for part in made.body if isinstance(part, ast.Assign)]
    return f"\n### {made.name}\n\n" + ", ".join(f"`{name}`" for name in names) + "\n"


def _text(statement: ast.stmt | None) -> str | None:
    match statement:
        case ast.Expr(value=ast.Constant(value=str(said))):
            return said
    return None


def _prose(text: str | None) -> str:
    """One line, with Markdown's marks for code; a table's cell must not end at a stroke in the text."""
    return " ".join((text or "").split()).replace("``", "`").replace("|", "\\|")


def main(arguments: list[str]) -> int:
    wanted = page()
    if arguments == ["--check"]:
        if PAGE.exists() and PAGE.read_text() == wanted:
            return 0
        sys.stderr.write(f"{PAGE}: not what grass/wire says; run `python -m grass.wire.tables`\n")
        return 1
    PAGE.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
