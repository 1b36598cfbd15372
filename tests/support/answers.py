"""What doubles of a transport have in common: a reply that is read as its type, as ``grass.api.transport`` does."""

from __future__ import annotations

from typing import Any, TypeVar

from grass.wire.codec import Form

_T = TypeVar("_T")


class Answers:
    """``call`` returns the reply as plain data."""

    def call(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        raise NotImplementedError

    def read(self, form: Form[_T], method: str, path: str, body: Any = None, **more: Any) -> _T:
        return form.convert(self.call(method, path, body, **more))
