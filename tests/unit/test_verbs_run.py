"""Every verb of `grass` is run by name against a real cluster."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from grass.cli.main import grass
from tests.unit.test_cli_reference import commands

TESTS = Path(__file__).parents[1]
RUNNERS = frozenset({"grass", "good", "json", "start"})
"""Methods that run the command with their arguments."""
COMMANDS = frozenset({"grass", "command", "person", "elsewhere", "Grass"})
"""Names of the command itself: ``grass("top")``, ``Grass(home)("top")``."""


def invocations(text: str) -> Iterator[list[str]]:
    """Yield the words of each `grass`: ``grass("top")``, ``[*PROGRAM, "top"]``, ``ssh(host, "grass", "leave")``."""
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Call(args=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
                words = [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
                program = next((number for number, word in enumerate(words, 1) if Path(word).name == "grass"), 0)
                if program or not isinstance(node, ast.Call) or _runs(node.func):
                    yield words[program:]
            case _:
                pass


def _runs(function: ast.expr) -> bool:
    match function:
        case ast.Attribute(attr=name):
            return name in RUNNERS
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)):
            return name in COMMANDS
        case _:
            return False


def named_in(text: str, verbs: set[str]) -> set[str]:
    found = list(invocations(text))
    return {verb for verb in verbs if any(words[: verb.count(" ") + 1] == verb.split() for words in found)}


def test_every_verb_is_run_against_a_real_cluster() -> None:
    verbs = {path.removeprefix("grass ") for path, _ in commands(grass, "grass")}
    paths = [path for folder in ("integration", "e2e") for path in (TESTS / folder).glob("*.py")]
    assert verbs - set().union(*(named_in(path.read_text(), verbs) for path in paths)) == set()


def test_a_verb_counts_only_where_it_is_run() -> None:
    verbs = {"job stop", "leave", "wait", "top"}
    text = 'grass("job", "stop", n); ssh("n2", "/opt/bin/grass", "leave"); client.wait("wait"); "grass top" in said'
    assert named_in('check("top")', verbs) == set()
    assert named_in(text, verbs) == {"job stop", "leave"}
    assert named_in('run([*PROGRAM, "top", *more])', verbs) == {"top"}
