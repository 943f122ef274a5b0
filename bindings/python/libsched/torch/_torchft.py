"""A process group for torchft's Manager."""

from __future__ import annotations

import types
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from .._errors import Error
from ._group import Group
from ._work import as_torch_error
from ._worlds import opened_by_store


class _GroupOfQuorum(Group):
    """The group of one quorum. Has a world of its own, although the process may have other groups."""

    def _begin(self, options: Any) -> None:
        self._enter(opened_by_store(options.store, options.group_rank, options.group_size, self._limit))


class _ReportedWork(dist.Work):
    """A Work that reports a failure only by its future.

    If the call or wait() raises an exception, the hook of DistributedDataParallel in torchft 0.2 raises AttributeError
    or AssertionError, which ends the process.

    Either `work` is given, or `error`: the error of a call that has failed.
    """

    def __init__(self, work: Any, error: Exception | None = None) -> None:
        super().__init__()
        self._work = work
        self._error = error

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Returns false after a failure."""
        try:
            return self._work is not None and self._work.wait(timeout)
        except dist.DistBackendError:
            return False

    def get_future(self) -> torch.futures.Future:
        if self._work is not None:
            return self._work.get_future()
        ended: torch.futures.Future = torch.futures.Future()
        future = ended.then(self._raise)
        ended.set_result(None)
        return future

    def _raise(self, _: Any) -> None:
        assert self._error is not None
        raise self._error

    def is_completed(self) -> bool:
        return self._work is None or self._work.is_completed()

    def is_success(self) -> bool:
        return self._work is not None and self._work.is_success()

    def exception(self) -> Exception | None:
        return self._error if self._work is None else self._work.exception()

    def synchronize(self) -> None:
        self.wait()

    block_current_stream = synchronize


def process_group_for_torchft(timeout: timedelta = timedelta(seconds=60)) -> Any:
    """Returns a process group for torchft.Manager(pg=...), between the replicas of a model. Needs torchft 0.2 or later.

    For each quorum of the Manager, the group opens a new world. `timeout` is the limit of a collective, and of the
    rendezvous of a quorum.
    """
    from torchft.process_group import ProcessGroupWrapper

    class ProcessGroupLsched(ProcessGroupWrapper):
        def _create_pg(self, store: dist.Store, rank: int, world_size: int) -> Group:
            options = types.SimpleNamespace(store=store, group_rank=rank, group_size=world_size, timeout=self._timeout,
                                            group_id=f"torchft/{self._quorum_id}", global_ranks_in_group=[])
            try:
                return _GroupOfQuorum(options)
            except Error as error:
                raise as_torch_error(error)

        def allreduce(self, tensors: Any, opts: Any) -> Any:
            try:
                return _ReportedWork(super().allreduce(tensors, opts))
            except dist.DistBackendError as error:
                return _ReportedWork(None, error)

        def getBackendName(self) -> str:
            return "torchft-lsched"

        def shutdown(self) -> None:
            self.abort(errored=False)

    return ProcessGroupLsched(timeout)
