"""Which programs of frameworks a pushed image has: layers that add, replace and remove, and links between folders."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from grass.files.image_programs import on_path
from grass.model.program import SYSTEM_PATH


def layer(path: Path, *entries: str) -> Path:
    """Write a layer: ``a/b`` a program, ``a/b-`` a file that cannot be executed, ``a/`` a folder, ``a > b`` a link."""
    with tarfile.open(path, "w") as tar:
        for entry in entries:
            name, _, target = entry.partition(" > ")
            info = tarfile.TarInfo(name.rstrip("/").rstrip("-"))
            info.mode = 0o644 if name.endswith("-") else 0o755
            if target:
                info.type, info.linkname = tarfile.SYMTYPE, target
            elif name.endswith("/"):
                info.type = tarfile.DIRTYPE
            tar.addfile(info, io.BytesIO())
    return path


@pytest.mark.parametrize(
    ("path", "layers", "found"),
    [
        (SYSTEM_PATH, [["usr/bin/mpirun", "usr/bin/other", "opt/bin/torchrun"]], ["mpirun"]),
        (SYSTEM_PATH, [["./usr/bin/mpirun-"]], []),
        (SYSTEM_PATH, [["usr/bin/mpirun > /etc/alternatives/mpirun", "usr/bin/"]], ["mpirun"]),
        ("/bin", [["bin > usr/bin", "usr/bin/python3"]], ["python3"]),
        ("/opt/env/bin", [["opt/env > ../srv/conda", "srv/conda/bin/torchrun"]], ["torchrun"]),
        ("/opt/env/bin", [["opt/env > /srv/conda"], ["srv/conda/bin/torchrun"]], ["torchrun"]),
        ("/bin", [["bin/mpirun", "bin/mpiexec"], ["bin/.wh.mpirun"]], ["mpiexec"]),
        ("/opt/bin", [["opt/bin/mpirun"], [".wh.opt"]], []),
        ("/opt/bin", [["opt/bin/mpirun"], ["opt/bin/.wh..wh..opq", "opt/bin/mpiexec"]], ["mpiexec"]),
        ("/opt/bin", [["opt/bin/mpirun"], ["opt/.wh.bin"], ["opt/bin/mpirun"]], ["mpirun"]),
        ("/a/bin", [["a > b", "b/bin/mpirun"], ["a/"]], []),
        ("/a", [["a > b", "b > a"]], []),
        ("", [["mpirun"]], []),
    ],
)
def test_programs_are_found_as_a_container_would(
    tmp_path: Path, path: str, layers: list[list[str]], found: list[str]
) -> None:
    tars = [layer(tmp_path / f"{number}.tar", *entries) for number, entries in enumerate(layers)]
    assert list(on_path(path, tars)) == found
