"""States in which a group refuses calls: without a world, after an error, or without the option of the call."""

from __future__ import annotations

from typing import Any

import torch
from torch._C._distributed_c10d import ErrorType

from .._errors import PeerLost, StateError, Timeout, Unsupported
from ._work import as_torch_error


class NoWorld:
    """Stands in for the world of a group, and for objects of that world, while the group has no world.

    `is_error` is true if the group has lost its world by an error or abort().
    """

    is_open = False

    def __init__(self, why: str, is_error: bool) -> None:
        self._why = why
        self.is_error = is_error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._error()

    def _error(self) -> Exception:
        return as_torch_error(StateError(f"{self._why}: call torch.distributed._reconfigure on all members first",
                                         "LSCHED_ERR_STATE"))

    def refuse(self, *_: Any) -> None:
        raise self._error()

    def _give_up(self) -> None:
        pass

    forget = _give_up


def error_of(world: Any, schedules: Any) -> ErrorType:
    """Returns torch's kind of the error after which a group refuses calls. SUCCESS: the group accepts calls."""
    if isinstance(world, NoWorld):
        return ErrorType.COMM_ERROR if world.is_error else ErrorType.SUCCESS
    if not world.is_open:
        return ErrorType.COMM_ERROR
    why = schedules.why()
    if world.lost() or isinstance(why, PeerLost):
        return ErrorType.REMOTE_ERROR
    if why is None:
        return ErrorType.SUCCESS
    return ErrorType.TIMEOUT if isinstance(why, Timeout) else ErrorType.COMM_ERROR


def not_reconfigurable() -> Exception:
    """Returns the error of reconfigure() for a group that was created without the option."""
    if not hasattr(torch._C._distributed_c10d, "ReconfigureOptions"):
        why = f"torch {torch.__version__} cannot reconfigure process groups: install torch 2.14 or later"
    else:
        why = ("this process group cannot be reconfigured: pass enable_reconfigure=True to init_process_group, and "
               "reconfigure the default group")
    return as_torch_error(Unsupported(why, "LSCHED_ERR_UNSUPPORTED"))
