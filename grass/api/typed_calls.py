"""Methods of ``grass.Client`` from those of ``ApiClient``: the same call, whose result becomes a typed view.

Each function takes a call of ``ApiClient`` and the type of its result, and returns the method. The method has the name,
the arguments and the docstring of the call. Used by ``typed_client``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from grass.api.client import ApiClient
from grass.wire.codec import Form

P = ParamSpec("P")
V = TypeVar("V")
M = TypeVar("M", bound=Callable[..., object])


class HasData(Protocol):
    """A client with its plain counterpart."""

    data: ApiClient


def one(call: Callable[Concatenate[ApiClient, P], object], view: type[V]) -> Callable[Concatenate[HasData, P], V]:
    """Return the method whose result is one view."""
    form: Form[V] = Form(view)

    def method(self: HasData, /, *args: P.args, **kwargs: P.kwargs) -> V:
        return form.convert(call(self.data, *args, **kwargs))

    return _described(method, call, view.__name__)


def several(
    call: Callable[Concatenate[ApiClient, P], Iterable[object]], view: type[V]
) -> Callable[Concatenate[HasData, P], list[V]]:
    """Return the method whose result is a list of views."""
    form: Form[V] = Form(view)

    def method(self: HasData, /, *args: P.args, **kwargs: P.kwargs) -> list[V]:
        return [form.convert(each) for each in call(self.data, *args, **kwargs)]

    return _described(method, call, f"list[{view.__name__}]")


def stream(
    call: Callable[Concatenate[ApiClient, P], Iterable[object]], view: type[V]
) -> Callable[Concatenate[HasData, P], Iterator[V]]:
    """Return the method whose result yields views as they come."""
    form: Form[V] = Form(view)

    def method(self: HasData, /, *args: P.args, **kwargs: P.kwargs) -> Iterator[V]:
        return (form.convert(each) for each in call(self.data, *args, **kwargs))

    return _described(method, call, f"Iterator[{view.__name__}]")


def same(call: Callable[Concatenate[ApiClient, P], V]) -> Callable[Concatenate[HasData, P], V]:
    """Return the method whose result is that of the call: no view."""

    def method(self: HasData, /, *args: P.args, **kwargs: P.kwargs) -> V:
        return call(self.data, *args, **kwargs)

    return _described(method, call, None)


def _described(method: M, call: Callable[..., object], result: str | None) -> M:
    """Give the method the name, docstring and signature of its call, with its own result."""
    signature = inspect.signature(call)
    method.__name__ = call.__name__
    method.__qualname__ = f"Client.{call.__name__}"
    method.__doc__ = call.__doc__
    if result is not None:
        signature = signature.replace(return_annotation=result)
        method.__doc__ = f"{inspect.getdoc(call)}\n\nReturns {result}."
    vars(method)["__signature__"] = signature
    return method
