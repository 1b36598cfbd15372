"""The docstring of a module says who uses it, and what it says is true: the modules that it names import it.

What a module must not do is in its own docstring, or for all modules of a folder in that of the package.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("grass", "master", "node")
COPIED = ("grass/assets/", "grass/task/library/")
"""Programs that hosts and tasks get as they are; no module imports them."""
USER = re.compile(
    r"\b(?:asked|called|chosen|driven|handled|imported|loaded|made|opened|read|run|sent|served|shared|started|taken|used"
    r"|written) (?:only )?(?:by|in|from|with|for)\b|\bpart of\b|python -m"
    r"|\b(?:calls|reads|runs|sends|takes|uses|writes) (?:it|them|this)\b",
    re.IGNORECASE,
)
"""Words with which a docstring says who uses the module."""
MANNER = re.compile(r"\bas (?:a |the )?[\w-]+ (?:reads|sends|uses|writes) (?:it|them|this)\b")
"""Words that look like that, but say how something is: "amounts as Kubernetes writes them"."""
NAMED = re.compile(r"\b(?:Used|Loaded|Called) by ((?:``[\w.]+``(?:, |,? and )?)+)[.,;]")
NOT_WHAT_IT_IS = re.compile(r"``\w+``(, ``\w+``)*( None)?:|(As|By|For|From|In|Of|On|Over|To|With) ")
"""How the docstring of a class begins that explains a field, or where the class is kept, before it says what it is."""
DOTTED = re.compile(r"^((?:grass|master|node)(?:\.\w+)+)(?::|$)")


def names_a_user(docstring: str) -> bool:
    return USER.search(MANNER.sub("", " ".join(docstring.split()))) is not None


def named_users(docstring: str) -> list[str]:
    """Return the modules, packages, classes and functions that the sentence "Used by …" lists."""
    return [name for said in NAMED.findall(" ".join(docstring.split())) for name in re.findall(r"``([\w.]+)``", said)]


def is_named(name: str, user: str, defined: Set[str] = frozenset()) -> bool:
    """Check whether ``name`` means the module ``user``.

    It may be the end of its dotted path, a package around it, or a class or function that is ``defined`` in it."""
    return f".{user}".endswith(f".{name}") or user.startswith(f"{name}.") or name in defined


@cache
def modules() -> Mapping[str, ast.Module]:
    """Dotted name → source of each module."""
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    names = {path: path.relative_to(ROOT).as_posix() for path in files}
    return {
        name.removesuffix(".py").removesuffix("/__init__").replace("/", "."): ast.parse(path.read_text())
        for path, name in names.items()
        if not name.startswith(COPIED) or name == "grass/assets/__init__.py"
    }


def imported(source: ast.Module) -> Iterator[str]:
    """Yield what a module imports, also inside functions and by a name in a string (``module:attribute``)."""
    for each in ast.walk(source):
        match each:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), names=names):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case ast.Constant(value=str(text)) if found := DOTTED.match(text):
                yield found[1]


def users() -> Mapping[str, set[str]]:
    found = defaultdict(set)
    for name, source in modules().items():
        for other in imported(source):
            found[other].add(name)
    return found


def defined(source: ast.Module) -> set[str]:
    return {each.name for each in source.body if isinstance(each, (ast.ClassDef, ast.FunctionDef))}


def docstrings() -> dict[str, str]:
    return {name: ast.get_docstring(source) or "" for name, source in modules().items()}


def is_package(name: str) -> bool:
    return (ROOT / name.replace(".", "/")).is_dir()


def test_each_package_says_what_it_is() -> None:
    assert [name for name, said in docstrings().items() if is_package(name) and not said] == []


def test_each_module_says_who_uses_it() -> None:
    silent = [name for name, said in docstrings().items() if not is_package(name) and not names_a_user(said)]
    assert silent == []


def test_the_modules_that_a_docstring_names_as_users_import_it() -> None:
    importers, names = users(), {name: defined(source) for name, source in modules().items()}
    said = {name: named_users(text) for name, text in docstrings().items()}
    assert sum(map(len, said.values())) > 300
    wrong = {
        name: false
        for name, named in said.items()
        if (false := [each for each in named if not any(is_named(each, user, names[user]) for user in importers[name])])
    }
    assert wrong == {}


def test_the_docstring_of_a_class_says_first_what_the_class_is() -> None:
    said = {
        f"{name}.{each.name}": ast.get_docstring(each) or ""
        for name, source in modules().items()
        for each in ast.walk(source)
        if isinstance(each, ast.ClassDef)
    }
    assert sum(map(bool, said.values())) > 500
    assert [name for name, text in said.items() if NOT_WHAT_IT_IS.match(text)] == []


def test_a_class_whose_docstring_begins_with_something_else_is_found() -> None:
    assert NOT_WHAT_IT_IS.match("``name``, ``folder``: of the file.") and NOT_WHAT_IT_IS.match(
        "``node`` None: the master."
    )
    assert NOT_WHAT_IT_IS.match("By name in the hash ``nodes``.") and NOT_WHAT_IT_IS.match("Of one file.")
    assert not NOT_WHAT_IT_IS.match("A file. ``name``: without its folder.")
    assert not NOT_WHAT_IT_IS.match("``count`` equal tasks of one component.")


def test_a_docstring_without_users_or_with_a_wrong_one_is_found() -> None:
    assert not names_a_user("Formats amounts: ``512MiB``, ``1h30m``. Pure.")
    assert not names_a_user("Parses amounts as Kubernetes writes them. Pure.")
    assert names_a_user("Formats amounts. Used by the CLI.")
    assert named_users("Formats amounts. Used by ``cells``, ``table`` and\n``grass.api``. Pure.") == [
        "cells",
        "table",
        "grass.api",
    ]
    assert is_named("cells", "grass.cli.cells") and is_named("grass.cli", "grass.cli.cells")
    assert is_named("Table", "grass.cli.cells", {"Table"}) and not is_named("Table", "grass.cli.cells")
    assert not is_named("ells", "grass.cli.cells") and not is_named("grass.c", "grass.cli.cells")
