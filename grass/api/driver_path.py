"""The folders and modules of a driver: the program that uses an executor. Used by ``executor``.

A function of a module beside the driver is pickled as the name of its module. A task on the driver's machine finds that
module if it searches the driver's folders. A task elsewhere does not have the file: its functions travel by value, as
those of ``__main__`` do.
"""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

import cloudpickle

_INSTALLED = ("site-packages", "dist-packages")
_PICKLING = threading.Lock()
"""Held while modules are registered with cloudpickle, whose register the whole process shares."""


def own_folders() -> list[str]:
    """Return the folders of ``sys.path`` that are the user's: neither the standard library nor installed packages."""
    found: dict[str, None] = {}
    for entry in sys.path:
        with suppress(OSError):  # the current folder was removed
            folder = str(Path(entry).absolute())
            if Path(folder).is_dir() and not _is_installed(folder):
                found[folder] = None
    return list(found)


@contextmanager
def by_value(folders: Sequence[str]) -> Iterator[None]:
    """Have cloudpickle send the modules in these folders by value."""
    with _PICKLING:
        known = cloudpickle.list_registry_pickle_by_value()
        modules = [module for module in _modules(folders) if module.__name__ not in known]
        for module in modules:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in modules:
                cloudpickle.unregister_pickle_by_value(module)


def _modules(folders: Sequence[str]) -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if not isinstance(module, ModuleType) or module.__name__ != name or name.partition(".")[0] in _NOT_SENT:
            continue
        file = vars(module).get("__file__")  # no attribute access: lazy modules import what is asked of them
        if isinstance(file, str) and not _is_installed(file) and any(_is_below(file, folder) for folder in folders):
            yield module


_NOT_SENT = {"__main__", "__mp_main__", "grass"}
"""cloudpickle sends the first two by value anyway. Grass has locks and connections, and is installed where needed."""


def _is_installed(path: str) -> bool:
    standard = sysconfig.get_paths()
    libraries = {standard[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return any(part in _INSTALLED for part in Path(path).parts) or any(_is_below(path, each) for each in libraries)


def _is_below(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)
