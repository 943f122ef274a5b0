"""Events of torch's profiler for collectives and messages, with Gloo's names: "lsched:all_reduce" and so on."""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterator

import torch
from torch._C._profiler import _RecordFunctionFast as Event
from torch.autograd import profiler  # reading `_is_profiler_enabled` costs less than calling a function

# Keys are methods. Values are the event's name in Gloo and NCCL, and the index of the argument that has this rank's
# tensors.
_EVENTS: dict[str, tuple[str, int | None]] = {
    "_other_allreduce": ("all_reduce", 0),  # Group.allreduce() calls it while a profiler is active
    "allreduce_coalesced": ("all_reduce", 0), "reduce": ("reduce", 0), "broadcast": ("broadcast", 0),
    "allgather": ("all_gather", 1), "all_gather_single": ("all_gather", 1),
    "allgather_coalesced": ("all_gather", 1), "all_gather_single_coalesced": ("all_gather", 1),
    "gather": ("gather", 1), "scatter": ("scatter", 1), "reduce_scatter": ("reduce_scatter", 1),
    "reduce_scatter_single": ("reduce_scatter", 1), "reduce_scatter_single_coalesced": ("reduce_scatter", 1),
    "alltoall": ("all_to_all", 1), "all_to_all_single": ("all_to_all", 1), "barrier": ("barrier", None),
    "send": ("send", 0), "recv": ("recv", 0), "recv_anysource": ("recvAnySource", 0),
}


def has_events(kind: type) -> type:
    """A decorator that makes each collective or message call of the class an event while a profiler is active.

    The event begins and ends with the call. If the call waits, the event covers the whole operation. With `async_op`
    and for tensors on CUDA devices, the event covers only the start of the operation.
    """
    for name, (word, place) in _EVENTS.items():
        setattr(kind, name, _recorded(getattr(kind, name), "lsched:" + word, place))
    return kind


def _recorded(method: Callable[..., Any], title: str, place: int | None) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        if not profiler._is_profiler_enabled:
            return method(*arguments, **options)
        brought = [] if place is None else list(_tensors(arguments[1 + place]))  # after `self`
        with Event(title, brought):
            return method(*arguments, **options)

    return call


def _tensors(given: Any) -> Iterator[torch.Tensor]:
    """Yields the tensors of an argument, which is a tensor, a list of tensors or a list of such lists."""
    if isinstance(given, torch.Tensor):
        yield given
        return
    for each in given:
        yield from _tensors(each)
