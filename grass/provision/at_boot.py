"""Start of a cluster at each boot of this machine: a service of systemd's user manager, or a line of cron.

Called by ``local``. A file in the cluster's folder names the way, so that ``forget`` removes what ``remember`` wrote,
also after one of them was killed.
"""

from __future__ import annotations

import getpass
import hashlib
import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from grass.config import ClusterConfig
from grass.errors import ConflictError
from grass.lines import lines_of
from grass.system import own_program
from grass.system.atomic_file import replace_file
from grass.system.environment import variables

SYSTEMD, CRON = "systemd", "cron"
_LINGERING = Path("/var/lib/systemd/linger")
_SECONDS = 20.0
"""After which a command of systemd or cron has failed."""


def remember(config: ClusterConfig) -> str:
    """Let the machine start the cluster when it boots. Return how, for people. Raises ConflictError: it cannot."""
    manager = _run("systemctl", "--user", "show-environment") is not None
    way = SYSTEMD if manager and _lingers() else CRON if _cron_runs() else None
    if way is None:
        lingering = f"`sudo loginctl enable-linger {getpass.getuser()}`, then this command again"
        other = f"let what starts your programs run `grass start {config.name}`"
        raise ConflictError(
            f"cluster {config.name}: this machine cannot start it at boot: "
            + (
                f"services of your user end with its last login; {lingering}"
                if manager
                else f"no systemd, no cron; {other}"
            )
        )
    kept = known(config)
    if kept not in (None, way):
        forget(config)
    replace_file(_note(config), way)
    if way == SYSTEMD:
        unit = _unit(config)
        unit.parent.mkdir(parents=True, exist_ok=True)
        replace_file(unit, service(config.name, _start(config), _stop(config), _needed()), mode=0o644)
        _must(config, "systemctl", "--user", "daemon-reload")
        _must(config, "systemctl", "--user", "enable", unit.name)
        return f"a service of your user, {unit.name}"
    _must(config, "crontab", "-", text=with_line(_table(config), _mark(config), _start(config), _needed()))
    return "a line of your crontab"


def forget(config: ClusterConfig) -> bool:
    """Undo ``remember``. Return whether there was something to undo."""
    way = known(config)
    if way == SYSTEMD:
        unit = _unit(config)
        if unit.exists():
            _run("systemctl", "--user", "disable", unit.name)  # a manager that is away does not keep the file here
            unit.unlink()
            _run("systemctl", "--user", "daemon-reload")
    elif way == CRON:
        before = _table(config)
        after = without_line(before, _mark(config))
        if after != before:
            _must(config, "crontab", "-", text=after)
    _note(config).unlink(missing_ok=True)
    return way is not None


def known(config: ClusterConfig) -> str | None:
    """Return the way in which the machine starts the cluster at boot. None: it does not."""
    try:
        return _note(config).read_text()
    except FileNotFoundError:
        return None


def service(name: str, start: Sequence[str], stop: Sequence[str], needed: Mapping[str, str]) -> str:
    """Return a unit of systemd that starts the cluster, and stops it in good order when the machine is shut down."""
    variables_of = "".join(f"Environment={_quoted(f'{key}={value}')}\n" for key, value in needed.items())
    return (
        f"[Unit]\nDescription=Grass cluster {name}\n\n"
        f"[Service]\nType=oneshot\nRemainAfterExit=yes\n{variables_of}"
        f"ExecStart={' '.join(map(_quoted, start))}\nExecStop={' '.join(map(_quoted, stop))}\n"
        "TimeoutStartSec=120\nTimeoutStopSec=60\n\n[Install]\nWantedBy=default.target\n"
    )


def with_line(table: str, mark: str, start: Sequence[str], needed: Mapping[str, str]) -> str:
    """Return a crontab with one line that starts the cluster at boot."""
    given = " ".join(f"{key}={shlex.quote(value)}" for key, value in needed.items())
    command = f"{given} {shlex.join(start)} >/dev/null 2>&1".strip().replace(
        "%", r"\%"
    )  # else cron ends the line there
    return f"{without_line(table, mark)}@reboot {command} # {mark}\n"


def without_line(table: str, mark: str) -> str:
    """Return a crontab without the line that ``with_line`` added."""
    kept = [line for line in lines_of(table) if not line.endswith(f" # {mark}")]
    return "".join(f"{line}\n" for line in kept)


def _lingers() -> bool:
    """Return whether systemd starts the user's manager at boot, without a login. Ask for it if it does not."""
    return (_LINGERING / getpass.getuser()).exists() or _run("loginctl", "enable-linger") is not None


def _cron_runs() -> bool:
    running = any(Path(each).exists() for each in ("/run/crond.pid", "/run/cron.pid", "/var/run/crond.pid"))
    return running and _run("crontab", "-l", empty=True) is not None


def _table(config: ClusterConfig) -> str:
    """Return the user's crontab. Raises ConflictError: what cannot be read must not be replaced."""
    found = _run("crontab", "-l", empty=True)
    if found is None:
        raise ConflictError(
            f"cluster {config.name}: `crontab -l` failed, so the line that starts it at boot stays as it is"
        )
    return found


def _run(*command: str, text: str = "", empty: bool = False) -> str | None:
    """Return what a command printed; None: it failed. ``empty``: failing means that there is nothing yet."""
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    if done.returncode and empty and "no crontab" in done.stderr:
        return ""
    return done.stdout if done.returncode == 0 else None


def _must(config: ClusterConfig, *command: str, text: str = "") -> None:
    if _run(*command, text=text) is None:
        raise ConflictError(
            f"cluster {config.name}: `{shlex.join(command)}` failed, which says when it starts; try it again"
        )


def _start(config: ClusterConfig) -> list[str]:
    return own_program.command("grass.cli.entry", "start", config.name)


def _stop(config: ClusterConfig) -> list[str]:
    return own_program.command("grass.cli.entry", "stop", "--yes", config.name)


def _needed() -> dict[str, str]:
    """Return the variables without which Grass would not find its clusters or its programs."""
    found = own_program.environment()
    return {key: value for key in ("GRASS_HOME", "PATH", "PYTHONPATH") if (value := found.get(key))}


def _mark(config: ClusterConfig) -> str:
    return f"grass cluster {config.home}"


def _note(config: ClusterConfig) -> Path:
    return Path(config.home) / "at-boot"


def _unit(config: ClusterConfig) -> Path:
    base = Path(variables().get("XDG_CONFIG_HOME") or Path.home() / ".config")
    digest = hashlib.sha256(os.fsencode(config.home)).hexdigest()[:8]  # a cluster in another GRASS_HOME has its name
    return base / "systemd" / "user" / f"grass-{config.name}-{digest}.service"


def _quoted(word: str) -> str:
    """Return a word as systemd reads it: without its specifiers and variables."""
    text = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", "$$")
    return f'"{text}"'
