"""Reads a mapping key by key, so that one pass finds every problem: types, ranges, missing and unknown keys.

Used by every reader of this package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, TypeVar

from grass.errors import ManifestError, Problem
from grass.manifest.document import Document, join
from grass.manifest.values import Wrong, show

T = TypeVar("T")

MAX_PROBLEMS = 50
"""Most problems to report: more do not help the user, and a hostile document must not cause unbounded work."""
MAX_GUESSES = 200
"""Most different words per document to compare with the known keys: each comparison costs up to a millisecond."""

_OTHER_WORDS = {
    "num": "replicas",
    "count": "replicas",
    "instances": "replicas",
    "replicas": "num",
    "cmd": "command",
    "run": "command",
    "args": "command",
    "entrypoint": "command",
    "environment": "env",
    "variables": "env",
    "cpus": "cpu",
    "cores": "cpu",
    "core": "cpu",
    "vcpu": "cpu",
    "vcpus": "cpu",
    "processors": "cpu",
    "storage": "disk",
    "scratch": "disk",
    "gpu_count": "gpu",
    "mem": "memory",
    "ram": "memory",
    "gpus": "gpu",
    "workdir": "cwd",
    "working_dir": "cwd",
    "needs": "depends_on",
    "after": "depends_on",
    "labels": "tags",
    "time_limit": "timeout",
    "timezone": "time_zone",
    "tz": "time_zone",
    "tasks": "components",
    "jobs": "job_names",
    "readiness": "ready",
    "node_selector": "where",
    "nodeselector": "where",
    "constraints": "where",
    "affinity": "where",
    "exclude": "avoid",
    "placement": "place",
    "allocation": "place",
    "policy": "place",
    "volumes": "container",
    "mounts": "container",
    "mount": "container",
    "docker": "container",
    "shm_size": "shm",
    "parameters": "matrix",
    "params": "matrix",
    "sweep": "matrix",
    "rack": "topology",
    "limits": "quotas",
    "reserved": "reserve",
}
"""Names of keys in other systems or in the other dialect; consulted only for an unknown key."""


class Problems:
    """The problems found so far in one document. ``source``: the name of its file."""

    def __init__(self, source: str = "") -> None:
        self.source = source
        self.found: list[Problem] = []
        self._guesses: dict[tuple[str, tuple[str, ...]], str] = {}

    def add(self, path: str, message: str) -> None:
        self.found.append(Problem(path, message))
        if len(self.found) >= MAX_PROBLEMS:
            self.found.append(Problem("", f"stopped after {MAX_PROBLEMS} problems; there may be more"))
            self._fail()

    def check(self) -> None:
        """Raise ManifestError if any problem was found."""
        if self.found:
            self._fail()

    def closest(self, word: str, known: tuple[str, ...]) -> str:
        """Return the known word that ``word`` probably means; empty: none. Raise ManifestError after MAX_GUESSES."""
        found = self._guesses.get((word, known))
        if found is None:
            if len(self._guesses) >= MAX_GUESSES:
                self.add("", f"has more than {MAX_GUESSES} different unknown names; correct or remove some")
                self._fail()
            import difflib

            found = next(iter(difflib.get_close_matches(word, known, 1, 0.6)), "") if len(word) <= 64 else ""
            self._guesses[word, known] = found
        return found

    def _fail(self) -> NoReturn:
        raise ManifestError(self.found, self.source)


class Fields:
    """One mapping. Reading a key makes the key known; ``done`` reports all other keys.

    For a problem, a method adds to ``problems`` and returns the default, so that reading goes on to the next problem.
    """

    def __init__(self, content: Any, path: str, problems: Problems, *, lenient: bool = False) -> None:
        """Read ``content``. ``lenient``: a key without a value counts as absent, as in MARO's files."""
        self.path = path
        self.problems = problems
        self.intact = isinstance(content, dict)
        self.lenient = lenient
        self._known: dict[str, None] = {}
        self._content: Document = {}
        if not self.intact:
            problems.add(path, f"must be a mapping (KEY: VALUE lines), got {show(content)}")
            return
        for key, value in content.items():
            if isinstance(key, str):
                self._content[key] = value
            else:
                problems.add(path, f"a key must be text, got {show(key)}")

    @property
    def content(self) -> Document:
        """The mapping itself."""
        return self._content

    def at(self, key: str) -> str:
        return join(self.path, key)

    def has(self, key: str) -> bool:
        self._known[key] = None
        return key in self._content and not (self.lenient and self._content[key] is None)

    def raw(self, key: str) -> Any:
        return self._content[key] if self.has(key) else None

    def read(self, key: str, parse: Callable[[Any], T], default: T) -> T:
        if not self.has(key):
            return default
        value = self._content[key]
        if value is None:
            self.problems.add(self.at(key), "has no value; leave the key out for its default")
            return default
        return self.parsed(self.at(key), parse, value, default)

    def require(self, key: str, parse: Callable[[Any], T], default: T, why: str = "is missing") -> T:
        """Read a key like ``read``, but report its absence. ``default`` only allows reading to go on."""
        if not self.has(key):
            if self.intact:
                self.problems.add(self.at(key), why)
            return default
        return self.read(key, parse, default)

    def section(self, key: str) -> Fields | None:
        """Return the mapping under ``key``; None if the key is absent or has another type."""
        if not self.has(key):
            return None
        section = Fields(self._content[key], self.at(key), self.problems, lenient=self.lenient)
        return section if section.intact else None

    @contextmanager
    def within(self, key: str) -> Iterator[Fields]:
        """Read the mapping under ``key``, and report its other keys at the end. Without one, nothing of it is required.

        ``intact`` says whether there is one.
        """
        section = self.section(key)
        if section is None:
            section = Fields({}, self.at(key), self.problems, lenient=self.lenient)
            section.intact = False
        yield section
        section.done()

    def named(self, key: str) -> Iterator[tuple[str, str, Any]]:
        """Yield path, name and value of each entry of the mapping under ``key``, whose names the user chooses."""
        section = self.section(key)
        if section is not None:
            for name, value in section.entries():
                yield section.at(name), name, value

    def items(self, key: str) -> Iterator[tuple[str, Any]]:
        """Yield path and value of each item of the list under ``key``."""
        if not self.has(key):
            return
        content = self._content[key]
        if not isinstance(content, (list, tuple)):
            self.problems.add(self.at(key), f"must be a list, got {show(content)}")
            return
        for index, item in enumerate(content):
            yield f"{self.at(key)}[{index}]", item

    def entries(self) -> Iterator[tuple[str, Any]]:
        """Yield all keys and values of a mapping whose keys the user chooses."""
        for key, value in self._content.items():
            self._known[key] = None
            yield key, value

    def others(self) -> list[tuple[str, Any]]:
        """Return the keys that were not read yet, with their values."""
        return [(key, value) for key, value in self._content.items() if key not in self._known]

    @property
    def known(self) -> tuple[str, ...]:
        """Return the keys that were read so far."""
        return tuple(self._known)

    def meant(self, key: str, known: tuple[str, ...]) -> str:
        """Return the key of ``known`` that the unknown ``key`` probably means; empty: none."""
        other = _OTHER_WORDS.get(key.lower(), "")
        return other if other in known else self.problems.closest(key.lower(), known)

    def parsed(self, path: str, parse: Callable[[Any], T], value: Any, default: T) -> T:
        try:
            return parse(value)
        except Wrong as wrong:
            self.problems.add(path, str(wrong))
            return default

    def refuse(self, key: str, message: str) -> None:
        """Report a key that is known but not allowed here."""
        if key in self._content:
            self._known[key] = None
            self.problems.add(self.at(key), message)

    def done(self) -> None:
        """Report the keys that were not read."""
        for key in self._content:
            if key not in self._known:
                self.problems.add(self.at(key), f"unknown key{self._suggestion(key)}")

    def _suggestion(self, key: str) -> str:
        if meant := self.meant(key, self.known):
            return f"; did you mean `{meant}`?"
        return f"; use one of {', '.join(self._known)}" if self._known else ""
