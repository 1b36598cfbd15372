"""Metadata is in setup.cfg. This adds to a wheel what lies at the top of a checkout: deploy/ and examples/."""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
ASSETS = ("deploy", "examples")


class BuildWithAssets(build_py):
    """`grass.assets.asset` finds these in the package; in a checkout (and so in an editable install) at its top."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for name in ASSETS:
                target = Path(self.build_lib) / "grass" / "assets" / name
                shutil.copytree(HERE / name, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))


setup(cmdclass={"build_py": BuildWithAssets})
