"""Events of torch's profiler for collectives and messages, named as Gloo's: "lsched:all_reduce" and so on."""

from __future__ import annotations

import functools
from typing import Any, Callable, Iterator

import torch
from torch._C._profiler import _RecordFunctionFast as Event
from torch.autograd import profiler  # `_is_profiler_enabled` costs less to read than a function to call

# The words of Gloo's and NCCL's events, and which argument of the method has the tensors that this rank brings.
_EVENTS: dict[str, tuple[str, int | None]] = {
    "_other_allreduce": ("all_reduce", 0),  # which Group.allreduce() calls while a profiler is active
    "allreduce_coalesced": ("all_reduce", 0), "reduce": ("reduce", 0), "broadcast": ("broadcast", 0),
    "allgather": ("all_gather", 1), "all_gather_single": ("all_gather", 1),
    "allgather_coalesced": ("all_gather", 1), "all_gather_single_coalesced": ("all_gather", 1),
    "gather": ("gather", 1), "scatter": ("scatter", 1), "reduce_scatter": ("reduce_scatter", 1),
    "reduce_scatter_single": ("reduce_scatter", 1), "reduce_scatter_single_coalesced": ("reduce_scatter", 1),
    "alltoall": ("all_to_all", 1), "all_to_all_single": ("all_to_all", 1), "barrier": ("barrier", None),
    "send": ("send", 0), "recv": ("recv", 0), "recv_anysource": ("recvAnySource", 0),
}


def has_events(kind: type) -> type:
    """A decorator: while a profiler is active, each call of a collective or message of the class is an event.

    The event begins and ends with the call. Thus an event has the duration of the operation if the call waits, and of
    starting the operation with `async_op` and on tensors of CUDA.
    """
    for name, (word, place) in _EVENTS.items():
        setattr(kind, name, _recorded(getattr(kind, name), "lsched:" + word, place))
    return kind


def _recorded(method: Callable[..., Any], title: str, place: int | None) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:
        if not profiler._is_profiler_enabled:
            return method(*arguments, **options)
        brought = [] if place is None else list(_tensors(arguments[1 + place]))  # behind `self`
        with Event(title, brought):
            return method(*arguments, **options)

    return call


def _tensors(given: Any) -> Iterator[torch.Tensor]:
    """The tensors of an argument, which is a tensor, a list of tensors or a list of such lists."""
    if isinstance(given, torch.Tensor):
        yield given
        return
    for each in given:
        yield from _tensors(each)
