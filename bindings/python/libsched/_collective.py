"""Collective calls: all ranks of a world make the same calls in the same order.

A rank whose arguments are wrong must still take part. If this rank only raised an exception, its next call would be
paired with the call in which the other ranks still wait. So if Python detects an error, this rank takes part in the
commit (the collective step of the call) and makes the commit fail. Every rank then raises, and the text names the rank
and the error. The library does the same for errors that it detects.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Iterator, TypeVar

from ._errors import Error, status_number

_Method = TypeVar("_Method", bound=Callable[..., Any])


def collective_call(method: _Method) -> _Method:
    """A decorator for a collective method: if the method raises on one rank, the call fails on all ranks.

    The method belongs to a World, or to an object with a `world`. Every exception before the commit has this effect,
    for example a TypeError for a missing argument.
    """

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        world = getattr(self, "world", self)
        if world is None:  # the object is a builder without a world
            return method(self, *arguments, **options)
        with refusing(world):
            return method(self, *arguments, **options)

    call._is_collective = True  # type: ignore[attr-defined]  # read by the test that lists all collective calls
    return call  # type: ignore[return-value]


@contextlib.contextmanager
def refusing(world: Any) -> Iterator[None]:
    """A context manager around code that creates an object collectively.

    If the block raises before its commit, the creation fails on all ranks.
    """
    commits = world._commits
    try:
        yield
    except BaseException as error:
        if world._commits == commits:
            _refuse(world, error)
        raise


def _refuse(world: Any, error: BaseException) -> None:
    """Makes the collective call fail on all ranks with this error. Does not wait for the other ranks."""
    is_ours = isinstance(error, Error)
    text = error.text if is_ours else f"{type(error).__name__}: {error}"
    try:
        world._refuse(status_number(error.status) if is_ours else status_number("LSCHED_ERR_ARGUMENT"), text)
    except Error:
        pass  # the world is closed, so no rank waits for this rank
