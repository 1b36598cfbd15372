"""Facts of a machine, gathered by one script in one round trip before anything changes. Parsing is pure.

Used by this package.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field

from grass.assets import asset
from grass.config import ClusterConfig, check_writer
from grass.errors import UndecodableError
from grass.hosts import Host
from grass.lines import lines_of
from grass.network_address import WILDCARDS
from grass.provision.on_premises.record import Made

OLDEST_PYTHON = (3, 10)
THERE, REGISTRY = "there", "registry"
REPLACED_BY = "replaced-by"
"""File of a master that was replaced or moved away: the address of the new one."""
_ADDRESS_AND_PORT = re.compile(r"LISTEN\s+\d+\s+\d+\s+(\S+):(\d+)\s+\S+\s*(?:users:\(\((.*)\)\))?")


@dataclass(frozen=True)
class Python:
    version: tuple[int, int, int]
    path: str

    @property
    def short(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"


@dataclass(frozen=True)
class Listener:
    """A listening TCP socket. ``program``: ``name (pid)``, empty if unknown."""

    address: str
    port: int
    program: str


@dataclass(frozen=True)
class Facts:
    """Facts of one machine. ``programs``: name → path. ``records``: cluster → record of objects that Grass created."""

    hostname: str = ""
    user: str = ""
    machine: str = ""
    kernel: str = ""
    os_id: str = ""
    os_version: str = ""
    """Release, such as ``12`` for Debian 12; empty for a system without a number."""
    os_name: str = ""
    libc: tuple[str, tuple[int, int]] = ("", (0, 0))
    """C library (``glibc``, ``musl`` or empty) and its version."""
    pythons: tuple[Python, ...] = ()
    systemd: bool = False
    packagers: tuple[str, ...] = ()
    programs: dict[str, str] = field(default_factory=dict)
    tls_servers: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Path and version of each redis or valkey on PATH that was built with TLS."""
    server: str = ""
    """The redis server of this cluster's master, if this machine is it."""
    docker: str = ""
    """Version of the docker engine; empty if the engine does not answer."""
    cifs: bool = False
    fuse: bool = False
    memory: int = 0
    cpus: int = 0
    gpus: int | None = None
    """Upper limit: devices that exist, with or without a driver. None: unknown."""
    disk_free: int = 0
    """Free bytes: the minimum of /opt, /var/lib and /srv."""
    addresses: tuple[tuple[str, str], ...] = ()
    """Pairs of device and address (without prefix length)."""
    listeners: tuple[Listener, ...] = ()
    time: float = 0.0
    grass_user: bool = False
    groups: tuple[str, ...] = ()
    """Groups of the user `grass`."""
    packages: tuple[str, ...] = ()
    """Those of the packages that Grass may need which are installed."""
    folders: dict[str, str] = field(default_factory=dict)
    """Folder of ``record.CHANGED`` that holds something → ``MODE UID:GID``."""
    accounts: tuple[tuple[str, int, str], ...] = ()
    """Name, user id and comment of every account that the machine lists."""
    subuids: tuple[tuple[str, int, int], ...] = ()
    """User, first id and number of ids of each range of ``/etc/subuid``."""
    paths: frozenset[str] = frozenset()
    units: frozenset[str] = frozenset()
    bundle: str = ""
    """Digest of the bundle from which /opt/grass/venv was installed."""
    config: ClusterConfig | None = None
    """``cluster.json`` of the requested cluster."""
    records: dict[str, Made] = field(default_factory=dict)
    image: str = ""
    """State of the requested container image: ``there``, ``registry`` (the engine can pull it), or the error."""

    @property
    def python(self) -> Python | None:
        """Return the newest Python that Grass can use, or None."""
        usable = [python for python in self.pythons if python.version[:2] >= OLDEST_PYTHON]
        return max(usable, key=lambda python: python.version, default=None)

    def no_python(self) -> str:
        """Return the error message for a machine without a usable Python."""
        found = ", ".join(".".join(map(str, each.version)) for each in self.pythons) or "none"
        system = self.os_name or "its system"
        return f"no Python of 3.10 or newer (found: {found}); install one, or a newer release of {system}"

    @property
    def there(self) -> Made:
        """Return what exists of all that Grass may make."""
        paths = (*sorted(self.paths), *(f"/etc/systemd/system/{unit}" for unit in sorted(self.units)))
        users = ("grass",) if self.grass_user else ()
        return Made(
            files=paths,
            folders=paths,
            users=users,
            packages=self.packages,
            groups=self.groups,
            before=self.folders,
        )

    def listens(self, address: str, port: int) -> Listener | None:
        """Return the listener on this port, at this address or at all addresses."""
        everywhere = WILDCARDS | {"*", ""}
        for listener in self.listeners:
            if listener.port != port:
                continue
            if address in everywhere or listener.address in everywhere or listener.address == address:
                return listener
        return None


def gather(host: Host, cluster: str) -> Facts:
    """Gather the facts in one round trip, as root. Raises the errors of ``Host.run`` and of ``parse``."""
    script = asset("on_premises/facts.sh").read_bytes()
    return parse(host.run(["sh", "-s", cluster], stdin=script, sudo=True, timeout=60).check().out, cluster)


def look_for_image(host: Host, image: str) -> str:
    """Return the value of ``Facts.image``. Asks a registry for the manifest; pulls nothing."""
    if host.run(["docker", "image", "inspect", "--format", "{{.Id}}", image], sudo=True, timeout=60).ok:
        return THERE
    asked = host.run(["timeout", "20", "docker", "manifest", "inspect", image], sudo=True, timeout=60)
    said = lines_of((asked.err or asked.out).strip())
    return REGISTRY if asked.ok else (said[-1] if said else "no registry answers within 20 s")


def parse(text: str, cluster: str = "") -> Facts:
    """Parse the script's output. Missing sections keep their defaults. Raises NewerVersionError: this machine
    is the master of ``cluster``, and a newer Grass made it."""
    sections = dict(_sections(text))
    config = "\n".join(sections.get("config", []))
    check_writer(cluster, config)
    first = {name: (lines[0].strip() if lines else "") for name, lines in sections.items()}
    os_release = dict(_assignments(sections.get("os", [])))
    programs = dict(line.split(" ", 1) for line in sections.get("programs", []) if " " in line)
    return Facts(
        hostname=first.get("hostname", ""),
        user=sections.get("user", ["", ""])[-1],
        machine=first.get("machine", ""),
        kernel=first.get("kernel", ""),
        os_id=os_release.get("ID", ""),
        os_version=os_release.get("VERSION_ID", ""),
        os_name=os_release.get("PRETTY_NAME", os_release.get("ID", "")),
        libc=_libc(first.get("libc", "")),
        pythons=tuple(_pythons(sections.get("pythons", []))),
        systemd=first.get("pid1") == "systemd" and bool(first.get("systemd")),
        packagers=tuple(sections.get("packager", [])),
        programs=programs,
        tls_servers=tuple(_servers(sections.get("redis", []))),
        server=first.get("server", ""),
        docker=first.get("docker", ""),
        cifs=bool(sections.get("cifs")),
        fuse=bool(sections.get("fuse")),
        memory=_number(first.get("memory")) * 1024,
        cpus=_number(first.get("cpus")),
        gpus=max((_number(line) for line in sections.get("gpus", [])), default=None),
        disk_free=min((_number(words[3]) for words in map(str.split, sections.get("disk", []))), default=0) * 1024,
        addresses=tuple(_addresses(sections.get("addresses", []))),
        listeners=tuple(parse_listeners("\n".join(sections.get("listening", [])))),
        time=float(_number(first.get("time"))),
        grass_user=any(line.strip().isdigit() for line in sections.get("users", [])),
        groups=tuple(first.get("groups", "").split()),
        packages=tuple(line.strip() for line in sections.get("packages", [])),
        folders=dict(line.split(" ", 1) for line in sections.get("folders", []) if " " in line),
        accounts=tuple(_accounts(sections.get("accounts", []))),
        subuids=tuple(_subuids(sections.get("subuids", []))),
        paths=frozenset(sections.get("paths", [])),
        units=frozenset(path.rsplit("/", 1)[-1] for path in sections.get("units", [])),
        bundle=first.get("venv", ""),
        config=_config(config),
        records={
            name.partition(" ")[2]: made
            for name, lines in sections.items()
            if name.startswith("record ") and (made := _record("\n".join(lines))) is not None
        },
    )


def _sections(text: str) -> Iterator[tuple[str, list[str]]]:
    name, lines = "", list[str]()
    for line in lines_of(text):
        if line.startswith("@"):
            yield name, lines
            name, lines = line[1:], []
        elif line.strip():
            lines.append(line)
    yield name, lines


def _assignments(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        name, sign, value = line.partition("=")
        if sign:
            try:
                yield name.strip(), "".join(shlex.split(value))
            except (ValueError, IndexError):
                continue


def _accounts(lines: list[str]) -> Iterator[tuple[str, int, str]]:
    for line in lines:
        words = line.split(":")
        if len(words) >= 5 and words[2].isdigit():
            yield words[0], int(words[2]), words[4]


def _subuids(lines: list[str]) -> Iterator[tuple[str, int, int]]:
    for line in lines:
        words = line.strip().split(":")
        if len(words) == 3 and words[1].isdigit() and words[2].isdigit():
            yield words[0], int(words[1]), int(words[2])


def _libc(line: str) -> tuple[str, tuple[int, int]]:
    match = re.search(r"(\d+)\.(\d+)", line)
    version = (int(match[1]), int(match[2])) if match else (0, 0)
    if "musl" in line:
        return "musl", version
    return ("glibc", version) if match and re.search("glibc|gnu|ldd", line, re.IGNORECASE) else ("", version)


def _pythons(lines: list[str]) -> Iterator[Python]:
    for line in lines:
        words = line.split(maxsplit=4)
        if len(words) == 5 and words[3] == "cpython":
            yield Python((int(words[0]), int(words[1]), int(words[2])), words[4])


def _servers(lines: list[str]) -> Iterator[tuple[str, tuple[int, ...]]]:
    for line in lines:
        if match := re.search(r"^(\S+) .*\bv=(\d+)\.(\d+)\.(\d+)", line):
            yield match[1], tuple(int(part) for part in match.groups()[1:])


def _addresses(lines: list[str]) -> Iterator[tuple[str, str]]:
    for line in lines:
        device, _, address = line.partition(" ")
        yield device, address.partition("/")[0]


def parse_listeners(text: str) -> list[Listener]:
    """Parse the output of `ss -H -l -t -n -p`."""
    return list(_listeners(lines_of(text)))


def _listeners(lines: list[str]) -> Iterator[Listener]:
    for line in lines:
        if match := _ADDRESS_AND_PORT.match(line.strip()):
            who = re.match(r'"([^"]*)",pid=(\d+)', match[3] or "")
            program = f"{who[1]} (process {who[2]})" if who else ""
            yield Listener(match[1].partition("%")[0].strip("[]"), int(match[2]), program)


def _number(text: str | None) -> int:
    return int(text) if text and text.strip().isdigit() else 0


def _config(text: str) -> ClusterConfig | None:
    """Parse ``cluster.json``. None: the file is missing, or was not written by Grass."""
    try:
        return ClusterConfig.parse(text)
    except UndecodableError:
        return None


def _record(text: str) -> Made | None:
    """Parse a record. None: it was not written by Grass."""
    try:
        return Made.parse(text)
    except ValueError:
        return None
