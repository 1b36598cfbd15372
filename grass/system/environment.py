"""The one module that reads environment variables. It also finds this user's clusters and the current one.

Used by all packages.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from grass.errors import InputError, NotFoundError


def grass_home() -> Path:
    """Return the folder of this user's state: ``GRASS_HOME``, by default ``~/.grass``. Raises InputError: not UTF-8."""
    home = Path(os.environ.get("GRASS_HOME") or Path.home() / ".grass").absolute()
    try:
        str(home).encode()
    except UnicodeEncodeError:
        raise InputError(f"GRASS_HOME: {str(home)!r} is not UTF-8") from None
    return home


def runtime_directory() -> Path:
    """Return the folder in memory that systemd makes for a service. Raises InputError: there is none."""
    if not (found := os.environ.get("RUNTIME_DIRECTORY", "").partition(":")[0]):
        raise InputError("RUNTIME_DIRECTORY: is missing; a unit of systemd sets it (RuntimeDirectory)")
    return Path(found)


def variables() -> Mapping[str, str]:
    """Return all variables as they are now, decoded one by one when they are read."""
    return os.environ


def whole_environment() -> dict[str, str]:
    """Return a copy of all variables, for processes that pass their environment on."""
    return dict(os.environ)


_INHERITED = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "TZ", "TMPDIR"}
    | {"GRASS_TRACE", "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONPATH", "LD_LIBRARY_PATH"}
    | {f"{kind}_proxy" for kind in ("http", "https", "ftp", "all", "no")}
    | {f"{kind}_PROXY" for kind in ("HTTP", "HTTPS", "FTP", "ALL", "NO")}
)
_INHERITED_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "OMP_")


def is_shared(name: str) -> bool:
    """Return whether daemons and local tasks share this variable with the user's shell. Secrets are never shared."""
    return name in _INHERITED or name.startswith(_INHERITED_PREFIXES)


def inherited_environment() -> dict[str, str]:
    """Return the variables that daemons inherit from the shell of `grass create`, and local tasks from the shell that
    submits their job."""
    return {name: os.environ[name] for name in os.environ if is_shared(name)}


def columns() -> int:
    """Return the width of tables from ``COLUMNS``; 0: not set."""
    said = os.environ.get("COLUMNS", "")
    return int(said) if said.isdecimal() else 0


def wants_colours() -> bool:
    """Return whether a terminal may get colours: not with ``NO_COLOR`` (no-color.org), nor on one that has none."""
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM", "") != "dumb"


def service_manager() -> tuple[str, float]:
    """Return systemd's notification socket (or ""), and its watchdog limit in seconds (0: none)."""
    microseconds = os.environ.get("WATCHDOG_USEC", "")
    return os.environ.get("NOTIFY_SOCKET", ""), int(microseconds) / 1e6 if microseconds.isdigit() else 0.0


def trace_file() -> str:
    """Where marks are written (``grass/trace.py``): ``GRASS_TRACE``."""
    return os.environ.get("GRASS_TRACE", "")


def compute_in_one_thread() -> None:
    """Let OpenBLAS, which numpy loads, start no threads for a process that has no linear algebra.

    It would start one for each core, with a buffer of megabytes each, and that is most of the time of importing numpy.
    A choice of the user stays. Call it before numpy is imported.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def supervised_by() -> tuple[str, str]:
    """Return the URL of the supervisord that started this process, and the process's name there; or two empty texts."""
    return os.environ.get("SUPERVISOR_SERVER_URL", ""), os.environ.get("SUPERVISOR_PROCESS_NAME", "")


def ssh_password() -> str | None:
    """Return the password for SSH logins: ``GRASS_SSH_PASSWORD``."""
    return os.environ.get("GRASS_SSH_PASSWORD")


def ssh_original_command() -> str:
    """Return the command that an SSH client asked for, inside the forced command of its key."""
    return os.environ.get("SSH_ORIGINAL_COMMAND", "")


def become_password() -> str | None:
    """Return the password for sudo on machines: ``GRASS_BECOME_PASSWORD``."""
    return os.environ.get("GRASS_BECOME_PASSWORD")


def backup_passphrase() -> str | None:
    """Return the passphrase of backups: ``GRASS_BACKUP_PASSPHRASE``."""
    return os.environ.get("GRASS_BACKUP_PASSPHRASE")


def registry_password() -> str | None:
    """Return the password for the registry of a namespace: ``GRASS_REGISTRY_PASSWORD``."""
    return os.environ.get("GRASS_REGISTRY_PASSWORD")


def cluster_home(name: str, home: Path | None = None) -> Path:
    return (home or grass_home()) / "clusters" / name


def clusters(home: Path) -> list[str]:
    """Return the names of all clusters of a GRASS_HOME, of every mode."""
    return sorted(path.name for path in (home / "clusters").glob("*") if path.is_dir() and not path.is_symlink())


def current_cluster(home: Path | None = None) -> str:
    """Return the default cluster of commands: ``GRASS_CLUSTER``, the choice of `grass use`, or the only one."""
    named = os.environ.get("GRASS_CLUSTER")
    if named:
        return named
    base = home or grass_home()
    try:
        return (base / "current").read_text().strip()
    except FileNotFoundError:
        pass
    clusters = sorted(path.name for path in (base / "clusters").glob("*") if path.is_dir())
    match clusters:
        case [only]:
            return only
        case []:
            raise NotFoundError("no cluster exists; `grass create` makes one on this machine")
        case _:
            names = ", ".join(clusters)
            raise NotFoundError(f"there are several clusters ({names}); choose one with `grass use NAME` or --cluster")
