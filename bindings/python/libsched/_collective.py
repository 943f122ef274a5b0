"""Collective calls: all ranks of a world make them, in the same order.

A rank whose arguments are wrong must take part all the same. If the rank only raised, its next call would be paired
with the call that the other ranks still wait in. So a failure before the library is called becomes a commit that fails:
every rank raises, and the text names the rank and its reason. The library does the same for the failures that it finds.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Iterator, TypeVar

from ._errors import Error, status_number

_Method = TypeVar("_Method", bound=Callable[..., Any])


def collective_call(method: _Method) -> _Method:
    """Makes a method of a World, or of an object with a `world`, one that refuses its arguments on all ranks.

    Whatever the method raises before its commit counts: a wrong type or a missing argument too.
    """

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        world = getattr(self, "world", self)
        if world is None:  # of a builder that was made without one
            return method(self, *arguments, **options)
        with refusing(world):
            return method(self, *arguments, **options)

    call._is_collective = True  # type: ignore[attr-defined]  # for the test that knows all collective calls
    return call  # type: ignore[return-value]


@contextlib.contextmanager
def refusing(world: Any) -> Iterator[None]:
    """A block that makes a collective create. An exception before the commit of the block refuses the create on all
    ranks."""
    commits = world._commits
    try:
        yield
    except BaseException as error:
        if world._commits == commits:
            _refuse(world, error)
        raise


def _refuse(world: Any, error: BaseException) -> None:
    """Commits the failure. Does not wait for the other ranks."""
    is_ours = isinstance(error, Error)
    text = error.text if is_ours else f"{type(error).__name__}: {error}"
    try:
        world._refuse(status_number(error.status) if is_ours else status_number("LSCHED_ERR_ARGUMENT"), text)
    except Error:
        pass  # the world is closed: no rank waits for this one
