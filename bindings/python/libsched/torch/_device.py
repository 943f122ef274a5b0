"""What the backend asks of torch.cuda, and nothing else does: streams and events of a device."""

from __future__ import annotations

from typing import Any

import torch

from .._world import World

cuda: Any = torch.cuda  # tests put a double in its place


def attach(world: World, device: torch.device) -> None:
    """The rank's device is this one from now on, if it has none yet. Raises Unsupported where CUDA cannot be used."""
    if not world.has_device:
        world.attach_cuda(device.index)


def current_stream(device: torch.device) -> Any:
    """The calling thread's. Its `cuda_stream` is the address."""
    return cuda.current_stream(device)


def event_in(stream: Any) -> Any:
    """An event behind all that is in the stream."""
    event = cuda.Event()
    event.record(stream)
    return event


def future(device: torch.device) -> torch.futures.Future:
    """One whose value is that of the streams that are current when it is set."""
    return torch.futures.Future(devices=[device])


class SideStreams:
    """A stream of its own for each device, made when it is first asked for."""

    def __init__(self) -> None:
        self._streams: dict[torch.device, Any] = {}

    def of(self, device: torch.device) -> Any:
        if device not in self._streams:
            self._streams[device] = cuda.Stream(device)
        return self._streams[device]


def run(step: Any, tensor: torch.Tensor, limit: float) -> None:
    """A round of a schedule over the tensor, behind what the current stream does with it. The host waits for its end,
    at most `limit` seconds."""
    if tensor.is_cuda:
        step.start_on_stream(current_stream(tensor.device)).wait(limit)
    else:
        step.run(limit)
