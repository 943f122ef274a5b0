"""Work objects: the end of a work, and the objects that works keep alive. Ranks are processes, unless a test has no
ranks."""

import pytest
import torch
from test_failures import run

from libsched.torch._work import Several, Work


class Ended:
    """An operation that has ended."""

    def wait(self, timeout):
        pass

    def test(self):
        return True


@pytest.mark.parametrize("detect", [Work.wait, Work.is_completed])
def test_a_work_has_not_ended_before_its_result_was_copied(detect):
    seen = []
    work = Work(Ended(), [torch.ones(3)], 5.0, lambda: seen.append((work.has_ended(), several.has_ended())))
    several = Several([work], [], 5.0)
    assert detect(work) and seen == [(False, False)] and work.has_ended() and several.has_ended()
    assert detect(work) and len(seen) == 1


def test_each_wait_raises_the_error_of_copying_the_result():
    def finish():
        raise ValueError("no memory")

    work = Work(Ended(), [torch.ones(3)], 5.0, finish)
    for each in (work, Several([work], [], 5.0), work):
        with pytest.raises(ValueError, match="no memory"):
            each.wait()
        assert each.is_completed() and not each.is_success()


@pytest.mark.parametrize("rounds_before", [0, 4])
def test_a_future_that_times_out_cancels_its_round(rounds_before):
    said = run(2, """
    late = torch.ones(5)
    for _ in range(%d):
        dist.all_reduce(late.clone())
    if rank == 0:
        work = dist.all_reduce(late, async_op=True)
        try:
            work.get_future().wait()
        except RuntimeError as error:
            say("in vain")
        try:
            work.wait()
        except RuntimeError as error:
            say(f"still {type(error.__cause__).__name__}")
        events.set("in vain")
    else:
        events.wait("in vain")
        try:
            dist.all_reduce(late)
            say("went well")
        except RuntimeError as error:
            say("given up by rank " + str(error.__cause__.rank))
    events.meet(rank, 2)
    assert late.tolist() == [1] * 5, late
    say("unchanged")
    os._exit(0)
    """ % rounds_before, limit=1)
    assert "in vain" in said and "still Timeout" in said and "given up by rank 0" in said, said
    assert said.count("unchanged") == 2, said


def test_a_future_that_times_out_cancels_its_messages():
    """After the timeout, rank 0 receives the same messages into another tensor."""
    said = run(2, """
    if rank == 0:
        late = [torch.zeros(3), torch.zeros(3)]
        works = [dist.irecv(late[0], 1), dist.batch_isend_irecv([dist.P2POp(dist.irecv, late[1], 1)])[0]]
        for work in works:
            try:
                work.get_future().wait()
            except RuntimeError as error:
                say("in vain")
        events.set("in vain")
        for _ in works:
            other = torch.zeros(3)
            dist.recv(other, 1)
            assert other.tolist() == [7] * 3, other
        for work in works:
            try:
                work.wait()
            except RuntimeError as error:
                say(f"still {type(error.__cause__).__name__}")
        assert not torch.cat(late).any(), late
    else:
        events.wait("in vain")
        for _ in range(2):
            dist.send(torch.full((3,), 7.0), 0)
    dist.destroy_process_group()
    say("end")
    """, limit=1)
    assert said.count("in vain") == 2 and said.count("still Timeout") == 2 and said.count("end") == 2, said


def test_a_finished_work_keeps_no_tensor():
    said = run(2, """
    import gc, weakref
    def references(call):
        tensor = torch.ones(4, 4).t() if call else torch.ones(4)
        work = dist.all_reduce(tensor, async_op=True)
        if call == 2:
            work.get_future().wait()
        elif call == 3:
            waiting.wait_until(work.is_completed)
        else:
            work.wait()
        return weakref.ref(tensor), weakref.ref(work)
    for call in range(4):
        refs = references(call)
        waiting.wait_until(lambda: gc.collect() >= 0 and not any(each() for each in refs))
    say("free")
    dist.destroy_process_group()
    """)
    assert said.count("free") == 2, said


def test_the_group_ends_while_the_future_of_a_coalesced_call_waits():
    """Before the future of the message is complete, the thread that completes futures has begun to wait for the
    coalesced call."""
    said = run(2, """
    tensors = [torch.ones(3), torch.ones(4)]
    for _ in range(4):
        dist.group.WORLD.allreduce_coalesced([each.clone() for each in tensors]).wait()
    if rank == 0:
        future = dist.group.WORLD.allreduce_coalesced(tensors).get_future()
        message = dist.irecv(torch.zeros(1), 1).get_future()
        events.set("waits")
        message.wait()
        events.set("ends")
    else:
        events.wait("waits")
        dist.send(torch.zeros(1), 0)
        events.wait("ends")
        dist.group.WORLD.allreduce_coalesced(tensors).wait()
    dist.destroy_process_group()
    assert all((each == 2).all() for each in tensors), tensors
    say("right")
    """)
    assert said.count("right") == 2, said


def test_a_synchronous_coalescing_manager():
    said = run(2, """
    x, y = torch.ones(3), torch.ones(4)
    with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu")):
        dist.all_reduce(x)
        dist.all_reduce(y)
    assert x[0] == 2 and y[0] == 2
    say("right")
    dist.destroy_process_group()
    """)
    assert said.count("right") == 2, said
