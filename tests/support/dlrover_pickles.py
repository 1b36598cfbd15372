"""What DLRover's client writes and reads, without DLRover: its messages as dataclasses of a module of the same name."""

from __future__ import annotations

import base64
import io
import json
import pickle
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

LIBRARY = Path(__file__).parents[2] / "grass" / "task" / "library" / "python"


def library(name: str) -> Any:
    """Return a module of the master."""
    if str(LIBRARY) not in sys.path:
        sys.path.append(str(LIBRARY))
    return import_module(f"grass_dlrover.{name}")


def _classes() -> ModuleType:
    module = ModuleType(library("messages").MODULE)
    for kind in library("messages").FIELDS:
        setattr(module, kind, type(kind, (), {"__module__": module.__name__}))
    return module


@contextmanager
def _importable() -> Iterator[ModuleType]:
    module = _classes()
    parts = module.__name__.split(".")
    names = [".".join(parts[:end]) for end in range(1, len(parts))]
    sys.modules.update({name: ModuleType(name) for name in names}, **{module.__name__: module})
    try:
        yield module
    finally:
        for name in (*names, module.__name__):
            del sys.modules[name]


def client_pickle(kind: str, protocol: int = 4, **fields: Any) -> bytes:
    """Return what ``pickle.dumps`` of the client writes. A field (kind, fields) is a message, too."""
    with _importable() as module:
        return pickle.dumps(_made(module, kind, fields), protocol)


def _made(module: ModuleType, kind: str, fields: dict[str, Any]) -> object:
    found = getattr(module, kind)()
    for name, value in fields.items():
        is_message = isinstance(value, tuple)
        setattr(found, name, _made(module, value[0], value[1]) if is_message else value)
    return found


def client_load(data: bytes) -> Any:
    """Return the object that the client reads, with its fields as attributes."""
    module = _classes()

    class Reader(pickle.Unpickler):
        def find_class(self, name: str, kind: str) -> Any:
            assert name == module.__name__
            return getattr(module, kind)

    return Reader(io.BytesIO(data)).load()


def request(message: str, node_id: int = 0, node_kind: str = "worker", /, **fields: Any) -> bytes:
    """Return the body of a request."""
    data = base64.b64encode(client_pickle(message, **fields)).decode()
    return json.dumps({"node_id": node_id, "node_type": node_kind, "data": data}).encode()


def answered(data: bytes) -> Any:
    """Return the message of an answer to ``/get``."""
    return client_load(client_load(data).data)
