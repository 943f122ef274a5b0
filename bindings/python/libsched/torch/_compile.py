"""Keeps torch.compile from compiling the code of the backend."""

from __future__ import annotations

import types

from torch._C._dynamo import eval_frame

_SKIPS = eval_frame._FrameExecStrategy(eval_frame._FrameAction.SKIP, eval_frame._FrameAction.SKIP)


def is_not_compiled(kind: type) -> type:
    """A decorator: torch.compile does not compile the methods of the class, or the functions that the methods call.

    torch calls these methods from C++ while a compiled model runs, for example from the constructor and forward() of
    DistributedDataParallel. Without the decorator, Dynamo compiles the methods like code of the user, and fails because
    a process group is opaque. The decorator marks the code objects as "skip", which costs nothing per call, and does
    not import torch._dynamo.
    """
    for each in vars(kind).values():
        if isinstance(each, types.FunctionType):
            eval_frame.set_code_exec_strategy(each.__code__, _SKIPS)
    return kind
