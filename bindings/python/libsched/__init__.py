"""Collective communication as persistent schedules. Partial collectives do not wait for late ranks.

    import numpy, libsched                         # lsched run -n 4 python sum.py
    with libsched.init() as world:
        x = numpy.full(8, world.rank, "f4")
        with world.allreduce(x) as step:           # in place; created once
            step.run(timeout=10)                   # run any number of times
        print(world.rank, x)

An array is any object with __dlpack__ (numpy, torch, jax), the buffer protocol or __cuda_array_interface__. An array
must be contiguous in C order, in CPU memory or on the device that World.attach_cuda() has attached. Times are in
seconds, and counts are in elements. Every failure raises a libsched.Error, which names the rank at fault if the rank is
known. docs/reference/python.md is the guide.
"""

from . import _interpreter  # noqa: F401  must be the first import: raises ImportError in a subinterpreter
from . import _core
from ._analysis import Finding, Simulation, Verification, simulate, verify
from ._builder import Buffer, Builder, Region, load_algorithm
from ._errors import (ArgumentError, BoundsError, Busy, Cancelled, DeviceError, Error, Mismatch, NoMemory, NotFinite,
                      PeerLost, StateError, Timeout, Unsupported)
from ._messages import ANY_RANK, ANY_TAG, Mailbox, Message
from ._partial import Partial, Report
from ._schedule import Schedule, Ticket
from ._sparse import Sparse
from ._world import World, init, join, open_threads, open_with

__version__ = _core.version
ANY_COUNT = _core.ANY_COUNT

__all__ = [
    "ANY_COUNT", "ANY_RANK", "ANY_TAG", "ArgumentError", "BoundsError", "Buffer", "Builder", "Busy", "Cancelled",
    "DeviceError", "Error", "Finding", "Mailbox", "Message", "Mismatch", "NoMemory", "NotFinite", "Partial", "PeerLost",
    "Region", "Report", "Schedule", "Simulation", "Sparse", "StateError", "Ticket", "Timeout", "Unsupported",
    "Verification", "World", "init", "join", "load_algorithm", "open_threads", "open_with", "simulate", "verify",
]
