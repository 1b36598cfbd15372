"""Lets mutmut change the code, and says what no test noticed: ``python -m tests.mutation.run [all | MODULE...]``."""

from __future__ import annotations

import fnmatch
import json
import re
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import tomllib

ROOT = Path(__file__).parents[2]
SURVIVORS = Path(__file__).with_name("survivors.txt")
WORK = ROOT / ".mutation"
"""Where mutmut runs: the tree by links, with settings that name the modules of this run alone. It checks the types
of all changes that it makes, so it is to make no more than it tries."""
LEAST = 0.90
NIGHTS = 7
OF = re.compile(r"from master\.(?:agent|planning)\b|from master import")
GROUPS = ("unit", "property", "scenario")
NOTICED = {"killed", "timeout", "caught by type check", "segfault", "suspicious"}
ALIVE = {"survived", "no tests"}


class Change(NamedTuple):
    """A change that no test noticed: in which function, and the line before and after it."""

    function: str
    before: str
    after: str


def modules() -> list[str]:
    """Return the modules that are changed, by ``[tool.mutmut]``."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mutmut"]
    paths = [path.as_posix() for each in settings["only_mutate"] for path in Path().glob(each)]
    kept = [path for path in paths if not any(fnmatch.fnmatch(path, each) for each in settings["do_not_mutate"])]
    return sorted(path.removesuffix(".py").replace("/", ".") for path in kept if not path.endswith("/__init__.py"))


def chosen(arguments: Sequence[str], night: int) -> list[str]:
    if arguments == ["all"]:
        return modules()
    return list(arguments) or modules()[night % NIGHTS :: NIGHTS]


def module_of(name: str) -> str:
    """Return the module of a mutant: ``master.planning.need.x_of__mutmut_3``."""
    return name.rpartition(".")[0]


def tests() -> list[str]:
    """Return the tests of the code: fast ones that import it, by themselves or through what supports them."""
    support = [
        path
        for each in ("support", "doubles")
        for path in Path("tests", each).glob("*.py")
        if OF.search(path.read_text())
    ]
    uses = re.compile("|".join([OF.pattern, *(rf"tests\.(?:support|doubles)\.{path.stem}\b" for path in support)]))
    files = [path for group in GROUPS for path in sorted(Path("tests", group).glob("test_*.py"))]
    return [path.as_posix() for path in files if uses.search(path.read_text())]


def prepare(of: Sequence[str]) -> None:
    WORK.mkdir(exist_ok=True)
    for each in ROOT.iterdir():
        link = WORK / each.name
        if not each.name.startswith(".") and each.name != "pyproject.toml" and not link.is_symlink():
            link.symlink_to(each)
    settings, paths = (ROOT / "pyproject.toml").read_text(), [f"{module.replace('.', '/')}.py" for module in of]
    for key, value in (("only_mutate", paths), ("pytest_add_cli_args_test_selection", tests())):
        settings = re.sub(rf"(?m)^{key} = .*$", f"{key} = {json.dumps(value)}", settings)
    (WORK / "pyproject.toml").write_text(settings)


def mutmut(*arguments: str, said: bool = True) -> str:
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, cwd=WORK, stdout=subprocess.PIPE if said else None, text=True, check=True).stdout


def results(of: Sequence[str]) -> dict[str, str]:
    """Return what became of each mutant of these modules."""
    lines = mutmut("results", "--all", "true").splitlines()
    found = dict(line.strip().split(": ", 1) for line in lines if "__mutmut_" in line)
    return {name: state for name, state in found.items() if module_of(name) in of}


def change(name: str) -> Change:
    lines = [
        line for line in mutmut("show", name).splitlines() if line[:1] in "+-" and not line.startswith(("+++", "---"))
    ]
    before = " ".join(line[1:].strip() for line in lines if line.startswith("-"))
    after = " ".join(line[1:].strip() for line in lines if line.startswith("+"))
    return Change(name.partition("__mutmut_")[0], before, after)


def allowed(text: str) -> dict[Change, str]:
    """Return the changes that may live, with the reason: blocks of four lines, the function, ``-``, ``+`` and ``=``."""
    found = {}
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        if lines:
            function, before, after, reason = lines
            found[Change(function, before.removeprefix("- "), after.removeprefix("+ "))] = reason.removeprefix("= ")
    return found


def figures(found: Mapping[str, str], known: int) -> tuple[list[str], float]:
    """Return a line for each module and one for all, and the part that was noticed. ``known``: those that may live."""
    by_module: dict[str, Counter[str]] = defaultdict(Counter)
    for name, state in found.items():
        by_module[module_of(name)][state] += 1
    lines = []
    for module, states in sorted(by_module.items()):
        noticed = sum(states[state] for state in NOTICED)
        lines.append(f"{module}: {noticed} of {noticed + sum(states[state] for state in ALIVE)}")
    noticed = sum(state in NOTICED for state in found.values())
    alive = sum(state in ALIVE for state in found.values()) - known
    part = noticed / max(1, noticed + alive)
    lines.append(f"all: {noticed} of {noticed + alive} changes were noticed ({part:.1%}); {known} more may live")
    return lines, part


def main(arguments: Sequence[str]) -> int:
    of = chosen(arguments, time.localtime().tm_yday)
    print("changing", ", ".join(of), flush=True)
    prepare(of)
    mutmut("run", *(f"{module}.*" for module in of), said=False)
    found = results(of)
    may_live = allowed(SURVIVORS.read_text())
    alive = [change(name) for name, state in found.items() if state in ALIVE]
    new = [each for each in alive if each not in may_live]
    for each in new:
        print(f"\nnobody noticed in {each.function}\n- {each.before}\n+ {each.after}")
    lines, part = figures(found, len(alive) - len(new))
    print("", *lines, sep="\n")
    return 0 if part >= LEAST else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
