"""What starts a cluster at boot: a service of systemd's user manager, or a line of a crontab."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grass.config import ClusterConfig
from grass.errors import ConflictError
from grass.manifest.local_settings import LocalSettings
from grass.provision import at_boot, layout
from grass.provision.at_boot import service, with_line, without_line

OTHERS = "MAILTO=ann\n5 4 * * * backup\n@reboot other # grass cluster /home/ann/.grass/clusters/local2\n"
MARK = "grass cluster /home/ann/.grass/clusters/local"


def test_a_line_is_added_once_and_removed_and_others_stay() -> None:
    table = with_line(OTHERS, MARK, ["/v/python", "-m", "x", "start", "a b"], {"GRASS_HOME": "/home/ann/50%"})
    line = r"@reboot GRASS_HOME=/home/ann/50\% /v/python -m x start 'a b' >/dev/null 2>&1 # " + MARK
    assert table == f"{OTHERS}{line}\n"
    assert with_line(table, MARK, ["y"], {}) == f"{OTHERS}@reboot y >/dev/null 2>&1 # {MARK}\n"
    assert without_line(table, MARK) == OTHERS
    assert without_line("no end of line", MARK) == "no end of line\n"


def test_a_service_says_its_words_as_systemd_reads_them() -> None:
    unit = service("lab", ["/v/py", 'a "b"', "50%"], ["/v/py", "$HOME"], {"PATH": "/a b:/c\\d"})
    assert 'ExecStart="/v/py" "a \\"b\\"" "50%%"\n' in unit
    assert 'ExecStop="/v/py" "$$HOME"\n' in unit
    assert 'Environment="PATH=/a b:/c\\\\d"\n' in unit


@pytest.fixture
def config(tmp_path: Path) -> ClusterConfig:
    made = layout.design(LocalSettings(name="lab"), tmp_path / "home" / "clusters" / "lab", None)
    Path(made.home).mkdir(parents=True)
    return made


def programs(folder: Path, monkeypatch: pytest.MonkeyPatch, **scripts: str) -> None:
    """Only these programs are on PATH."""
    folder.mkdir()
    for name, text in scripts.items():
        (folder / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{text}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))


def test_without_systemd_and_cron_it_says_what_to_do_and_changes_nothing(
    config: ClusterConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path / "bin", monkeypatch)
    with pytest.raises(ConflictError, match="no systemd, no cron; let what starts your programs run `grass start lab`"):
        at_boot.remember(config)
    assert at_boot.known(config) is None and not at_boot.forget(config)


def test_without_lingering_it_says_how_to_get_it(
    config: ClusterConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs(tmp_path / "bin", monkeypatch, systemctl="true", loginctl="exit 1")
    with pytest.raises(ConflictError, match="end with its last login; `sudo loginctl enable-linger "):
        at_boot.remember(config)


def test_a_service_is_enabled_and_removed(
    config: ClusterConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = tmp_path / "calls"
    programs(tmp_path / "bin", monkeypatch, systemctl=f'echo "$@" >> {calls}', loginctl=f'echo "$@" >> {calls}')
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    said = at_boot.remember(config)
    [unit] = (tmp_path / "config" / "systemd" / "user").iterdir()
    assert unit.name in said and "start" in unit.read_text() and "WantedBy=default.target" in unit.read_text()
    assert calls.read_text().splitlines()[1:] == ["enable-linger", "--user daemon-reload", f"--user enable {unit.name}"]
    at_boot.remember(config)  # again, as it is
    assert at_boot.forget(config) and not unit.exists() and at_boot.known(config) is None


def test_a_crontab_that_cannot_be_read_is_not_replaced(
    config: ClusterConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the lines of the user would be lost."""
    programs(tmp_path / "bin", monkeypatch, crontab=f'[ "$1" = - ] && cat > {tmp_path}/table; echo denied >&2; exit 1')
    with pytest.raises(ConflictError):
        at_boot.remember(config)
    (Path(config.home) / "at-boot").write_text(at_boot.CRON)
    with pytest.raises(ConflictError, match="crontab"):
        at_boot.forget(config)
    assert not (tmp_path / "table").exists() and at_boot.known(config) == at_boot.CRON


def test_the_program_that_is_started_at_boot_is_grass() -> None:
    command = [sys.executable, "-P", "-m", "grass.cli.entry", "--version"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=30, cwd="/", env=dict(os.environ)
    )
    assert done.stdout.startswith("grass ")
