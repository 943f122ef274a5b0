"""The program of each rank of test_streams.py: rounds in streams, over memory and streams of the fake driver.

    LD_LIBRARY_PATH=build/tests/fake_cuda lsched run -n 2 python stream_program.py [NAME...]

Functions whose names begin with check_ are the checks. Other programs import the helpers of this module, and call
begin(), which opens a group and attaches its device.
"""

import gc
import os
import sys
import weakref
from datetime import timedelta
from types import SimpleNamespace

import above  # noqa: F401
import cuda_double as double
import numpy as np
import torch
import torch.distributed as dist
from torch._C._distributed_c10d import AllreduceOptions
from waiting import SharedEvents, wait_until  # noqa: F401

COUNT = 1000
FLOAT32 = 8  # LSCHED_F32
# The attributes of a tensor on the device.
near = SimpleNamespace(is_cuda=True, device=double.DEVICE, dtype=torch.float32)


def begin(limit=60):
    dist.init_process_group("lsched", timeout=timedelta(seconds=limit))
    dist.group.WORLD.world.attach_cuda(0, staging_bytes=1 << 20)


def say(text):
    os.write(1, (text + "\n").encode())  # a single write, so that lines of several ranks do not mix


def array(value=0.0):
    return double.device.array(np.full(COUNT, value, "f4"))


def allreduce(target, is_async=True, finish=None, keeps=None, tensors=()):
    """Runs the round of Group.allreduce() for a tensor at `target`."""
    group = dist.group.WORLD
    kind = group._kind(("sum",), "allreduce", near, count=COUNT, dtype=FLOAT32, op="sum")
    opts = AllreduceOptions()
    opts.asyncOp = is_async
    return group._run(kind, target.address, target.address, list(tensors), opts, finish, keeps)


def is_all(target, value):
    return np.array_equal(target.read(), np.full(COUNT, value, "f4"))


def sum_of(offset):
    """Returns the sum over all ranks of rank + offset."""
    return float(sum(r + offset for r in range(dist.get_world_size())))


def check_rounds_over_one_memory_and_over_many_follow_the_stream(rank):
    stream = double.current_stream()
    arrays = [array() for _ in range(7)]
    for is_async in (True, False):
        for i in range(60):  # even rounds use the same memory, odd rounds alternate between arrays
            x = arrays[i % 7 if i % 2 else 0]
            brought, taken = array(rank + i), array()
            double.copy(x, brought, stream)
            work = allreduce(x, is_async)
            if is_async:
                work.wait()
            double.copy(taken, x, stream)
            stream.synchronize()
            assert is_all(taken, sum_of(i)), (i, taken.read())
            assert work.is_completed() and work.is_success()
            taken.free(), brought.free()
    for _ in range(80):  # more rounds than may be outstanding
        last = allreduce(arrays[0], is_async=False)
    last.synchronize()
    ones = [array(1) for _ in range(7)]
    for i in range(28):  # each round uses other memory, while the previous round may be in flight
        last = allreduce(ones[i % 7], is_async=False)
    last.synchronize()
    assert all(is_all(each, dist.get_world_size() ** 4) for each in ones)


def check_the_host_goes_on_while_streams_wait(rank):
    stream, other = double.current_stream(), double.Stream()
    x, brought, taken = array(), array(rank + 5), array()
    stream.hold(True)
    double.copy(x, brought, stream)
    work = allreduce(x)
    with double.stream(other):
        work.wait()
        double.copy(taken, x, other)
    assert not work.is_completed() and double.cuda.fake_cuda_pending(other.cuda_stream) == 2
    stream.hold(False)
    work.synchronize()
    assert is_all(x, sum_of(5))
    other.synchronize()
    assert is_all(taken, sum_of(5)) and work.is_completed() and work.exception() is None


def check_a_wait_with_a_timeout_is_the_hosts_too(rank):
    stream, x = double.current_stream(), array(rank)
    stream.hold(True)
    work = allreduce(x)
    try:
        work.wait(timedelta(seconds=0.1))
        raise AssertionError("it went well")
    except RuntimeError as error:
        assert "timeout has passed" in str(error), error
    stream.hold(False)
    work.wait(timedelta(seconds=30))
    assert is_all(x, sum_of(0))


def check_what_is_left_to_do_is_done_once_in_the_first_stream_that_waits(rank):
    first, second = double.Stream(), double.Stream()
    x, copy = array(rank), array()
    done = []

    def finish():
        done.append(double.current_stream())
        double.copy(copy, x, double.current_stream())

    kept = double.Temporary()
    work = allreduce(x, finish=finish, keeps=(kept, None))
    assert not done
    first.hold(True)
    with double.stream(first):
        work.wait()
    with double.stream(second):
        work.wait()  # `second` waits until `first` has executed `finish`
    wait_until(work.has_ended)
    assert done == [first] and kept.used_in == [first] and not work.is_completed()
    assert double.cuda.fake_cuda_pending(second.cuda_stream) == 1
    first.hold(False)
    second.synchronize()
    assert is_all(copy, sum_of(0)) and work.is_completed()
    work = allreduce(x, finish=finish)  # no thread waits for this work, so is_completed() runs `finish`
    wait_until(work.is_completed)
    assert len(done) == 2 and is_all(copy, dist.get_world_size() * sum_of(0))


def check_memory_is_kept_until_the_round_has_ended(rank):
    stream = double.current_stream()
    x = array(rank)
    for finish in (None, lambda: None):
        kept, tensor = double.Temporary(), double.Temporary()
        seen = [weakref.ref(kept), weakref.ref(tensor)]
        stream.hold(True)
        allreduce(x, is_async=False, finish=finish, keeps=kept, tensors=[tensor])
        del kept, tensor
        gc.collect()
        assert all(each() is not None for each in seen)
        stream.hold(False)
        stream.synchronize()
        # The watcher releases the objects without another call.
        wait_until(lambda: all(each() is None for each in seen))


def check_futures_are_completed_at_once_and_callbacks_come_behind_the_round(rank):
    group, stream = dist.group.WORLD, double.current_stream()
    x, copy = array(rank), array()
    stream.hold(True)
    works = [allreduce(x, finish=lambda: double.copy(copy, x, double.current_stream())), allreduce(array())]
    streams = []
    futures = [each.get_future().then(lambda _: streams.append(double.current_stream())) for each in works]
    side = group._sides.of(double.DEVICE)
    assert all(each.done() for each in futures) and streams == [stream, stream] and not works[0].is_completed()
    both = group._together(works, [1, 2])
    assert both.get_future().value() == [1, 2] and not both.is_completed()
    stream.hold(False)
    side.synchronize()
    assert is_all(copy, sum_of(0)) and both.is_completed() and both.is_success()
    both.wait()
    both.synchronize()


def check_a_capture_is_refused_and_all_goes_on(rank):
    x, stream = array(rank), double.current_stream()
    allreduce(x).synchronize()
    with double.capture(stream):
        try:
            allreduce(x)
            raise AssertionError("it went well")
        except RuntimeError as error:
            assert "captured" in str(error), error
    allreduce(x).synchronize()
    assert is_all(x, dist.get_world_size() * sum_of(0))


def check_a_group_ends_with_rounds_under_way(rank):  # must be the last check
    x = array(rank)
    works = [allreduce(x, is_async=False) for _ in range(3)]
    dist.destroy_process_group()
    assert is_all(x, size**2 * before)
    assert all(work.is_completed() and work.is_success() for work in works)


if __name__ == "__main__":
    begin()
    me, size, before = dist.get_rank(), dist.get_world_size(), sum_of(0)
    for name, check in list(globals().items()):
        if name.startswith("check_") and (len(sys.argv) == 1 or name[6:] in sys.argv[1:]):
            check(me)
    say("all is right")
