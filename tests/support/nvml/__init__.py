"""A stub of NVML, compiled by the test that uses it, and the file that describes its devices."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.needs import require


class StubDriver:
    """A stub driver. ``set(...)`` changes the devices while they are watched.

    ``env`` makes a program find this driver; the daemons of a local cluster inherit these variables by their names.
    """

    def __init__(self, folder: Path) -> None:
        compiler = shutil.which("cc")
        require(compiler is not None, "a C compiler")
        self.state = folder / "state"
        library = folder / "libnvidia-ml.so.1"
        source = Path(__file__).with_name("stub.c")
        subprocess.run(["cc", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, source], check=True)
        self.env = {**os.environ, "LD_LIBRARY_PATH": str(folder), "NVIDIA_STUB": str(self.state)}
        self.values: dict[str, int] = {}
        self.set(count=4)

    def set(self, **values: int) -> None:
        """Set values: ``count=4``, ``init=9``; of device 0 ``_0_util=50``."""
        self.values.update(values)
        names = {name: name[1:].replace("_", ".", 1) if name.startswith("_") else name for name in self.values}
        new = self.state.with_suffix(".new")
        new.write_text("".join(f"{names[name]} {value}\n" for name, value in self.values.items()))
        new.replace(self.state)

    def calls(self) -> str:
        """Return ``o`` for each time that the driver was opened, and ``c`` for each time that it was closed."""
        return self.state.with_suffix(".calls").read_text()

    def ask(self, expression: str) -> Any:
        """Return the value, through JSON, of an expression with ``gpu`` in a process that uses this driver."""
        program = f"from grass.wire.codec import encode; from node.agent import gpu; print(encode({expression}))"
        done = subprocess.run([sys.executable, "-c", program], env=self.env, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)
