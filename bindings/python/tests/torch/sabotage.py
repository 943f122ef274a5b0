"""Backends with one fault each, for the tests of the driver: delegates whose rank 1 misbehaves after a broadcast."""

import os
import signal
import threading

import delegate
import torch.distributed as dist


def register(name, fault):
    class FaultyGroup(delegate.DelegateGroup):
        def broadcast(self, tensors, *arguments):
            work = super().broadcast(tensors, *arguments)
            work.wait()
            if self.inner.rank() == 1:
                fault(tensors)
            return work

    dist.Backend.register_backend(name, lambda options, _: FaultyGroup(options), extended_api=True, devices=["cpu"])


def refuse(_):
    raise RuntimeError("refused")


register("wrong", lambda tensors: tensors[0].add_(1))
register("refuses", refuse)
register("hangs", lambda _: threading.Event().wait(3600))
register("dies", lambda _: os.kill(os.getpid(), signal.SIGKILL))
