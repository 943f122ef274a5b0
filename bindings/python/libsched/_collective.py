"""Collective calls: all ranks of a world make them, in the same order.

A rank whose arguments are wrong must still take part. If the rank only raised, its next call would be paired with the
call in which the other ranks still wait. So a failure before the call of the library becomes a commit that fails: every
rank raises, and the text names the rank and its reason. The library does the same for the failures that it finds.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, Callable, Iterator, TypeVar

from ._errors import Error, status_number

_Method = TypeVar("_Method", bound=Callable[..., Any])


def collective_call(method: _Method) -> _Method:
    """Makes a method of a World, or of an object with a `world`, refuse its arguments on all ranks.

    Every exception that the method raises before its commit counts, a wrong type or a missing argument included.
    """

    @functools.wraps(method)
    def call(self: Any, *arguments: Any, **options: Any) -> Any:
        world = getattr(self, "world", self)
        if world is None:  # a builder without a world
            return method(self, *arguments, **options)
        with refusing(world):
            return method(self, *arguments, **options)

    call._is_collective = True  # type: ignore[attr-defined]  # read by the test that lists all collective calls
    return call  # type: ignore[return-value]


@contextlib.contextmanager
def refusing(world: Any) -> Iterator[None]:
    """A context manager for a collective create.

    An exception before the commit of the block refuses the create on all ranks.
    """
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
        pass  # the world is closed, so no rank waits for this rank
