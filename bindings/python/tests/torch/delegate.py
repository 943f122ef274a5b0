"""A ProcessGroup in pure Python that passes every call to Gloo. sabotage.py adds faults to this group."""

from datetime import timedelta

import torch
from torch._C._distributed_c10d import ProcessGroup, ProcessGroupGloo, Work

COLLECTIVES = (
    "all_gather_single", "all_gather_single_coalesced", "all_to_all_single", "allgather", "allgather_coalesced",
    "allreduce", "allreduce_coalesced", "alltoall", "barrier", "broadcast", "gather", "recv", "recv_anysource",
    "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_single_coalesced", "scatter", "send",
)  # fmt: skip


class DelegateWork(Work):
    """A work that waits for Gloo's work."""

    def __init__(self, work):
        super().__init__()
        self.inner = work

    def wait(self, timeout=timedelta(0)):
        """Blocks until Gloo's work is done. Raises RuntimeError if Gloo's work raises it."""
        return self.inner.wait(timeout) if timeout else self.inner.wait()


class DelegateGroup(ProcessGroup):
    """The process group.

    Only the members of the group call the constructor, which blocks until all members are connected.
    """

    def __init__(self, options):
        super().__init__(options.group_rank, options.group_size)
        self.inner = ProcessGroup(options.store, options.group_rank, options.group_size)
        self.gloo = ProcessGroupGloo(options.store, options.group_rank, options.group_size, options.timeout)
        self.inner._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, self.gloo)
        self.inner._set_default_backend(ProcessGroup.BackendType.GLOO)
        self.stored_name = options.group_id

    def getBackendName(self):
        return "delegate"

    def getGroupName(self):
        return self.stored_name

    def setGroupName(self, name):
        self.stored_name = name

    group_name = pg_name = property(lambda self: self.stored_name)
    supports_coalescing = supports_splitting = False

    def _get_backend(self, device):
        return self

    def shutdown(self):
        self.gloo.shutdown()

    def abort(self):
        self.gloo.abort()


def add(kind, name, made=lambda answer: answer):
    """Defines a method that calls Gloo."""

    def method(self, *arguments, **keywords):
        return made(getattr(self.inner, name)(*arguments, **keywords))

    setattr(kind, name, method)


for name in COLLECTIVES:
    add(DelegateGroup, name, DelegateWork)
for name in ("get_future", "is_completed", "is_success", "exception", "result", "_source_rank"):
    add(DelegateWork, name)
