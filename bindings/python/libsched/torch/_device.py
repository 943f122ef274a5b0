"""Streams and events of CUDA devices. No other module of the backend uses torch.cuda."""

from __future__ import annotations

from typing import Any

import torch

from .._world import World

cuda: Any = torch.cuda  # tests replace this module by a double


def attach(world: World, device: torch.device) -> None:
    """Attaches the device to this rank, unless the rank has one already. Raises Unsupported if CUDA cannot be used."""
    if not world.has_device:
        world.attach_cuda(device.index)


def current_stream(device: torch.device) -> Any:
    """Returns the current stream of the calling thread. Its `cuda_stream` is the address of the CUDA stream."""
    return cuda.current_stream(device)


def event_in(stream: Any) -> Any:
    """Returns an event that is recorded after all work in the stream."""
    event = cuda.Event()
    event.record(stream)
    return event


def future(device: torch.device) -> torch.futures.Future:
    """Returns a future. Its users wait for all work that was in the current streams when its value was set."""
    return torch.futures.Future(devices=[device])


class SideStreams:
    """Side streams, one for each device. A stream is created at its first use."""

    def __init__(self) -> None:
        self._streams: dict[torch.device, Any] = {}

    def of(self, device: torch.device) -> Any:
        if device not in self._streams:
            self._streams[device] = cuda.Stream(device)
        return self._streams[device]


def run(step: Any, tensor: torch.Tensor, limit: float) -> None:
    """Runs a round of a schedule over the tensor, after the work of the current stream.

    The host waits for the end of the round, at most `limit` seconds.
    """
    if tensor.is_cuda:
        step.start_on_stream(current_stream(tensor.device)).wait(limit)
    else:
        step.run(limit)
