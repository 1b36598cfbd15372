"""Changes the code, and says what no test noticed: ``python -m tests.mutation.run``, as ``scripts/mutate`` calls it."""

from __future__ import annotations

import fnmatch
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import tomllib

from tests.mutation.changes import Made, Possible, make, possible
from tests.mutation.report import ALIVE, TYPES, allowed, figures, guards_only
from tests.mutation.selection import chosen, importers, sampled

ROOT = Path(__file__).parents[2]
SURVIVORS = Path(__file__).with_name("survivors.txt")
WORK = ROOT / ".mutation"
"""A copy of the tree, with the changed modules."""
LEAST = {"master.agent": 0.90, "master.planning": 0.90}
"""Package → the part of its changes that must be noticed. Of the others, what is left is printed."""
GROUPS = ("unit", "property", "scenario")
SUPPORT = ("support", "doubles")
SLOW = {"tests/property/test_reactor.py"}
"""Each of its tests takes longer than a change may take (``trials.MOST``)."""


def modules() -> list[str]:
    """Return the modules that are changed, by ``[tool.mutmut]``."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    paths = [path.relative_to(ROOT).as_posix() for each in settings["only_mutate"] for path in ROOT.glob(each)]
    kept = [path for path in paths if not any(fnmatch.fnmatch(path, each) for each in settings["do_not_mutate"])]
    return sorted(path.removesuffix(".py").replace("/", ".") for path in kept if not path.endswith("/__init__.py"))


def tests(modules: Sequence[str]) -> list[str]:
    """Return the tests of the packages of these modules."""

    def texts(groups: Sequence[str], names: str) -> dict[str, str]:
        paths = [path for each in groups for path in sorted(Path("tests", each).glob(names))]
        return {path.as_posix(): path.read_text() for path in paths}

    support = {name[: -len(".py")].replace("/", "."): text for name, text in texts(SUPPORT, "*.py").items()}
    packages = sorted({".".join(module.split(".")[:2]) for module in modules})
    return [name for name in importers(packages, support, texts(GROUPS, "test_*.py")) if name not in SLOW]


def copy_tree() -> None:
    """Copy what is in git's sight, so that programs that tests start find the same tree."""
    shutil.rmtree(WORK, ignore_errors=True)
    ignore = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info", "build", "dist")
    shutil.copytree(ROOT, WORK, ignore=ignore, symlinks=True)


def write(made: Mapping[Path, Made]) -> None:
    for path, each in made.items():
        (WORK / path).write_text(each.code)


def tried(names: Sequence[str], tests: Sequence[str]) -> dict[str, str]:
    """Return what became of each change."""
    wanted, results = WORK / "wanted.json", WORK / "results.jsonl"
    wanted.write_text(json.dumps(names))
    together = os.environ.get("MUTATION_PROCESSES", str(os.cpu_count() or 1))
    command = [sys.executable, "-m", "tests.mutation.trials", wanted.name, results.name, together, *tests]
    subprocess.run(command, cwd=WORK, check=True)
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return {name: state for name, state, _ in lines}


def caught_by_types(of: Sequence[Possible], made: Mapping[Path, Made], alive: set[str]) -> set[str]:
    """Return those that mypy does not accept. It sees no others: it would take long."""
    names: dict[tuple[str, int], str] = {}
    for each in of:
        old = made[each.path]
        left = [index for index, name in enumerate(old.names) if name in alive]
        new = make(each, [each.mutations[index] for index in left])
        (WORK / each.path).write_text(new.code)
        for index, (first, last) in zip(left, new.lines, strict=True):
            names.update({(each.path.as_posix(), line): old.names[index] for line in range(first, last + 1)})
    options = [
        "--cache-dir",
        str(ROOT / ".mypy_cache" / "mutation"),
        "--output",
        "json",
        "--no-warn-unused-ignores",
        "--no-warn-unreachable",
        *(word for package in ("grass", "master", "node") for word in ("--package", package)),
    ]
    said = subprocess.run([sys.executable, "-m", "mypy", *options], cwd=WORK, stdout=subprocess.PIPE, text=True)
    errors = [json.loads(line) for line in said.stdout.splitlines() if line.startswith("{")]
    places = [(each["file"], each["line"]) for each in errors if each["severity"] == "error"]
    return {names[place] for place in places if place in names}


def main(arguments: Sequence[str]) -> int:
    what, start = chosen(arguments, modules(), time.localtime().tm_yday), time.monotonic()
    print("changing", ", ".join(what.modules), flush=True)
    os.chdir(ROOT)
    of = [possible(Path(f"{module.replace('.', '/')}.py")) for module in what.modules]
    if what.sample is not None:
        drawn = sampled([len(each.mutations) for each in of], what.sample, what.seed)
        of = [
            each._replace(mutations=[each.mutations[place] for place in places])
            for each, places in zip(of, drawn, strict=True)
        ]
    made = {each.path: make(each, each.mutations) for each in of}
    copy_tree()
    write(made)
    changes = {
        name: change
        for each in made.values()
        for name, change in zip(each.names, each.changes, strict=True)
        if not guards_only(change)
    }
    print(f"{len(changes)} changes after {time.monotonic() - start:.0f} s", flush=True)
    found = tried(list(changes), what.tests or tests(what.modules))
    print(f"tried after {time.monotonic() - start:.0f} s", flush=True)
    alive = {name for name, state in found.items() if state in ALIVE}
    found.update(dict.fromkeys(caught_by_types(of, made, alive), TYPES))
    may_live = allowed(SURVIVORS.read_text())
    left = [(changes[name], state) for name, state in found.items() if state in ALIVE]
    for (function, before, after), state in left:
        if (function, before, after) not in may_live:
            print(f"\n{state}\n{function}\n- {before}\n+ {after}")
    lines, _ = figures(found, sum(change in may_live for change, _ in left))
    print("", *lines, f"{time.monotonic() - start:.0f} s", sep="\n")
    for package, least in LEAST.items():
        of_package = {name: state for name, state in found.items() if name.startswith(f"{package}.")}
        known = sum(state in ALIVE and changes[name] in may_live for name, state in of_package.items())
        if figures(of_package, known)[1] < least and len(of_package) > known:
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
