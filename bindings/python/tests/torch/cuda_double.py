"""Streams and events of the fake driver under the names of torch.cuda, to test the backend's control flow without a
GPU.

Imported by programs of test_streams.py, before their first collective.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from ctypes import byref, c_uint, c_void_p

import above  # noqa: F401
import torch
from device_memory import Device, call, cuda

from libsched.torch import _device

DEVICE = torch.device("cuda", 0)
device = Device().__enter__()
for _name, _takes in (("cuEventCreate", [c_void_p, c_uint]), ("cuEventRecord", [c_void_p, c_void_p]),
                      ("cuEventQuery", [c_void_p]), ("cuEventSynchronize", [c_void_p]),
                      ("cuStreamWaitEvent", [c_void_p, c_void_p, c_uint])):
    getattr(cuda, _name).argtypes = _takes


class Stream:
    def __init__(self, _: torch.device | None = None) -> None:
        made = c_void_p()
        call("cuStreamCreateWithPriority", byref(made), 1, 0)
        self.cuda_stream = made.value

    def wait_event(self, event: "Event") -> None:
        call("cuStreamWaitEvent", self.cuda_stream, event.handle, 0)

    def synchronize(self) -> None:
        call("cuStreamSynchronize", self.cuda_stream)

    def hold(self, is_held: bool) -> None:
        cuda.fake_cuda_hold_stream(self.cuda_stream, int(is_held))


class Event:
    def __init__(self) -> None:
        made = c_void_p()
        call("cuEventCreate", byref(made), 2)
        self.handle = made.value

    def record(self, stream: Stream) -> None:
        call("cuEventRecord", self.handle, stream.cuda_stream)

    def query(self) -> bool:
        return cuda.cuEventQuery(self.handle) == 0

    def synchronize(self) -> None:
        call("cuEventSynchronize", self.handle)


_default = Stream()
_current = threading.local()


def current_stream(_: torch.device | None = None) -> Stream:
    return getattr(_current, "stream", _default)


@contextlib.contextmanager
def stream(one: Stream):
    before, _current.stream = current_stream(), one
    try:
        yield
    finally:
        _current.stream = before


@contextlib.contextmanager
def capture(one: Stream):
    graph = c_void_p()
    call("cuStreamBeginCapture_v2", one.cuda_stream, 2)
    yield
    call("cuStreamEndCapture", one.cuda_stream, byref(graph))
    call("cuGraphDestroy", graph)


class Temporary:
    """Stands for a tensor that a Work of torch keeps alive. Records the streams in which the tensor is used."""

    def __init__(self) -> None:
        self.used_in: list[Stream] = []

    def record_stream(self, one: Stream) -> None:
        self.used_in.append(one)


def copy(target, source, one: Stream) -> None:
    call("cuMemcpyAsync", target.address, source.address, target.bytes, one.cuda_stream)


_device.cuda = sys.modules[__name__]
_device.future = lambda _: torch.futures.Future()  # a future without streams
