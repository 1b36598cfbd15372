"""Promises of CONTRIBUTING.md that no other tool can keep: found by reading the files."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
from collections import defaultdict
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
OURS = {"grass", "master", "node", "tests"}
PATCHED = re.compile(r"""monkeypatch\.set(?:attr|item)\([^\n]*?[\w.,\s]["'.]_?[A-Z][A-Z0-9_]+["'],""")
RIDDLE = re.compile(r"\b(?:as far as|by now|gets there|(?:has|have) come|of which)\b", re.IGNORECASE)
"""Words that make a reader look back in the sentence for what they mean."""
ASSIGNED = re.compile(r"^\s*[a-z][\w.]*\._?[A-Z][A-Z0-9_]+ = ")
MODULE = re.compile(r"`((?:grass|master|node|tests|scripts)/[\w/]+\.py)`")


def patches_a_constant(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if PATCHED.search(line) or ASSIGNED.match(line)]


def test_no_test_patches_a_constant_of_the_product() -> None:
    assert {
        str(path): found for path in ROOT.glob("tests/**/*.py") if (found := patches_a_constant(path.read_text()))
    } == {}


def test_a_patched_constant_is_found() -> None:
    call = "monkeypatch.set" + "attr"
    assert patches_a_constant(f'    {call}(patience, "TIMEOUT", 1)')
    assert patches_a_constant(f'    {call}("grass.api.patience._RESTART", 1)')
    assert patches_a_constant("    agent._RETRY = 0.1")
    assert not patches_a_constant(f'    {call}(sys, "stdin", text)')


def test_texts_for_readers_do_without_words_that_make_riddles() -> None:
    code = [path for package in ("grass", "master", "node") for path in (ROOT / package).rglob("*.py")]
    pages = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    assert len(code) > 500 and len(pages) > 40
    assert [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in (*code, *pages)
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if RIDDLE.search(line)
    ] == []


def long_constants(text: str) -> list[str]:
    """Return the literals and patterns of a module, of at least 25 characters, that it gives a name."""
    values = [
        node.value for node in ast.parse(text).body if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value
    ]
    found = [ast.unparse(value) for value in values if is_literal(value)]
    return [each for each in found if len(each) >= 25]


def is_literal(value: ast.expr) -> bool:
    match value:
        case ast.Call(ast.Attribute(ast.Name("re"), "compile"), [ast.Constant()]):
            return True
        case ast.Dict() | ast.Tuple() | ast.Set() | ast.List() | ast.Constant():
            return not any(isinstance(node, (ast.Name, ast.Call, ast.Attribute)) for node in ast.walk(value))
    return False


def test_no_two_modules_define_the_same_long_constant() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for package in ("grass", "master", "node"):
        for path in (ROOT / package).rglob("*.py"):
            for value in long_constants(path.read_text()):
                homes[value].add(str(path.relative_to(ROOT)))
    assert len(homes) > 200
    assert {value: where for value, where in homes.items() if len(where) > 1} == {}


def test_a_long_constant_is_found_by_its_value() -> None:
    assert (
        len(long_constants('_A = re.compile(r"[A-Za-z0-9_.-]+")\nB: str = "/usr/bin:/bin:/usr/local/bin"\nC = 1')) == 2
    )


def test_each_module_that_the_documents_name_exists() -> None:
    pages = [ROOT / "CONTRIBUTING.md", ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    named = {name: str(page) for page in pages for name in MODULE.findall(page.read_text())}
    assert len(named) > 50
    assert {name: page for name, page in named.items() if not (ROOT / name).is_file()} == {}


def test_what_benches_import_is_there() -> None:
    """Nothing else reads them between two runs of a bench."""
    missing: list[str] = []
    for path in sorted((ROOT / "tests" / "bench").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in OURS:
                found = importlib.import_module(node.module or "")
                missing += [f"{path.name}: {each.name}" for each in node.names if not has(found, each.name)]
    assert missing == []


def has(module: ModuleType, name: str) -> bool:
    package = hasattr(module, "__path__")
    return hasattr(module, name) or (package and importlib.util.find_spec(f"{module.__name__}.{name}") is not None)
