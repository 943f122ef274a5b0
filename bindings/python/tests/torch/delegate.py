"""A ProcessGroup in pure Python that passes every call on to Gloo, registered as "lsched".

It shows that the conformance driver copes with such a group, and which tests fail for the name alone. With
LSCHED_RECORD=FILE in the environment, rank 0 of each group appends what is called on it to FILE, a line of JSON each.
"""

import json
import os
import sys
from datetime import timedelta

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, ProcessGroupGloo, Work

COLLECTIVES = (
    "all_gather_single", "all_gather_single_coalesced", "all_to_all_single", "allgather", "allgather_coalesced",
    "allreduce", "allreduce_coalesced", "alltoall", "barrier", "broadcast", "gather", "recv", "recv_anysource",
    "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_single_coalesced", "scatter", "send",
)  # fmt: skip
OLD_NAMES = {
    "_allgather_base": "all_gather_single",
    "_reduce_scatter_base": "reduce_scatter_single",
    "allgather_into_tensor_coalesced": "all_gather_single_coalesced",
    "alltoall_base": "all_to_all_single",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_single_coalesced",
}
RECORD = os.environ.get("LSCHED_RECORD")


def record(kind, name, *arguments, **keywords):
    """Appends one call to the file: its name, arguments in short, and the frame it came from."""
    frame = sys._getframe(2)
    while frame.f_back and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    come_from = f"{os.path.relpath(frame.f_code.co_filename, os.path.dirname(torch.__file__))}:{frame.f_code.co_name}"
    described = [describe(a) for a in arguments] + [f"{k}={describe(v)}" for k, v in keywords.items()]
    test = ""
    while frame:
        test = frame.f_code.co_name if frame.f_code.co_name.startswith("test_") else test
        frame = frame.f_back
    with open(RECORD, "a") as file:
        file.write(
            json.dumps({"kind": kind, "name": name, "arguments": described, "from": come_from, "test": test}) + "\n"
        )


def describe(value):
    """A tensor as dtype and layout, a list as that of its elements, options as their attributes."""
    if isinstance(value, torch.Tensor):
        layout = "sparse " if value.is_sparse else "" if value.is_contiguous() else "strided "
        return f"{layout}{str(value.dtype)[6:]}{'[0]' if value.numel() == 0 else ''}"
    if isinstance(value, list):
        return "[" + ", ".join(sorted({describe(item) for item in value})) + "]"
    if type(value).__name__.endswith("Options"):
        names = [name for name in dir(value) if not name.startswith("_")]
        fields = {name: getattr(value, name) for name in names}
        return type(value).__name__ + str({name: str(getattr(field, "op", field)) for name, field in fields.items()})
    return type(value).__name__ if not isinstance(value, (int, str, type(None))) else repr(value)


class DelegateWork(Work):
    """Waits for Gloo's work."""

    def __init__(self, work):
        super().__init__()
        self.inner = work

    def wait(self, timeout=timedelta(0)):
        """Blocks until Gloo is done; RuntimeError where Gloo says so."""
        return self.inner.wait(timeout) if timeout else self.inner.wait()


def add_work_method(name):
    """Defines a method without arguments that asks Gloo's work."""
    setattr(DelegateWork, name, lambda self: getattr(self.inner, name)())


for name in ("get_future", "is_completed", "is_success", "exception", "result", "_source_rank"):
    add_work_method(name)


class RecordedWork(DelegateWork):
    """The same, but every attribute that is asked for is recorded."""

    def __getattribute__(self, name):
        if name != "inner" and not name.startswith("__"):
            record("work", name)
        return object.__getattribute__(self, name)


class DelegateGroup(ProcessGroup):
    """Members of the group only; the constructor blocks until all are connected."""

    def __init__(self, options):
        super().__init__(options.group_rank, options.group_size)
        self.inner = ProcessGroup(options.store, options.group_rank, options.group_size)
        self.gloo = ProcessGroupGloo(options.store, options.group_rank, options.group_size, options.timeout)
        self.inner._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, self.gloo)
        self.inner._set_default_backend(ProcessGroup.BackendType.GLOO)
        self.stored_name = options.group_id
        self.stored_description = ""

    def getBackendName(self):
        return "lsched"

    def getGroupName(self):
        return self.stored_name

    def setGroupName(self, name):
        self.stored_name = name

    def getGroupDesc(self):
        return self.stored_description

    def setGroupDesc(self, description):
        self.stored_description = description

    group_name = pg_name = property(lambda self: self.stored_name)
    supports_coalescing = supports_splitting = supports_time_estimate = False

    def _get_backend(self, device):
        return self

    def monitored_barrier(self, timeout, wait_all_ranks=False):
        self.gloo.monitored_barrier(timeout, wait_all_ranks)

    def shutdown(self):
        self.gloo.shutdown()

    def abort(self):
        self.gloo.abort()


class RecordedGroup(DelegateGroup):
    """The same, but every attribute that is asked for is recorded as well (rank 0)."""

    def __getattribute__(self, name):
        own = name in ("stored_name", "stored_description", "inner", "gloo", *COLLECTIVES, *OLD_NAMES)
        if not own and not name.startswith("__") and object.__getattribute__(self, "inner").rank() == 0:
            record("attribute", name)
        return object.__getattribute__(self, name)


def add_collective(name, inner_name):
    """Defines a method that passes its arguments on."""

    def method(self, *arguments, **keywords):
        recorded = RECORD and self.inner.rank() == 0
        if recorded:
            record("collective", name, *arguments, **keywords)
        work = getattr(self.inner, inner_name)(*arguments, **keywords)
        return RecordedWork(work) if recorded else DelegateWork(work)

    method.__name__ = name
    setattr(DelegateGroup, name, method)


for name in COLLECTIVES:
    add_collective(name, name)
for name, new_name in OLD_NAMES.items():
    add_collective(name, new_name)


def make(options, _):
    return (RecordedGroup if RECORD else DelegateGroup)(options)


dist.Backend.register_backend("lsched", make, extended_api=True, devices=["cpu"])
