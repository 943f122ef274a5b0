"""Objects that several threads call, and threads that outlive the interpreter."""

import asyncio
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import libsched
from conftest import LIMIT, as_threads, launch
from waiting import compute_for, is_awaited, wait_until


def beside(call):
    """Calls `call` in another thread. Returns the thread, and a list to which it appends the exception or None."""
    raised = []

    def run():
        try:
            call()
            raised.append(None)
        except Exception as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, raised


def test_what_another_thread_waits_for_is_not_closed():
    is_cancelled = threading.Event()

    def body(world):
        with world.barrier() as step:
            if world.rank == 0:
                thread, raised = beside(lambda: step.run(LIMIT))
                wait_until(lambda: world.diagnose()[0] == 1)  # the round waits for rank 1
                for end in (step.close, world.close):
                    with pytest.raises(libsched.Busy):
                        end()
                step.cancel()
                is_cancelled.set()
                thread.join(LIMIT)
                assert isinstance(raised[0], libsched.Cancelled)
            else:
                with pytest.raises(libsched.Cancelled):
                    step._create_wait(LIMIT)
                    assert is_cancelled.wait(LIMIT)
                    for _ in range(2):  # rank 0 has sent its message of the first round
                        step.run(LIMIT)

    as_threads(2, body)


def test_closing_in_one_thread_while_others_run():
    """close() raises Busy, or the other threads raise StateError."""

    def body(world):
        for _ in range(300):
            step = world.allreduce(np.zeros(3))

            def loop():
                while True:
                    step.run(LIMIT)
                    compute_for(0.0001)

            thread, raised = beside(loop)
            while True:
                try:
                    step.close()
                    break
                except libsched.Busy:
                    pass
            thread.join(LIMIT)
            assert isinstance(raised[0], libsched.StateError), raised

    as_threads(1, body)


def test_two_threads_wait_for_one_message():
    def body(world):
        with world.mailbox() as box, world.barrier() as come:
            for i in range(200):
                if world.rank == 0:
                    x = np.zeros(1)
                    message = box.receive(1, x, tag=i)
                    thread, raised = beside(lambda: message.wait(LIMIT))
                    if i % 2:
                        wait_until(lambda: is_awaited(message))
                    assert not message.test()
                    come.run(LIMIT)
                    message.wait(LIMIT)
                    thread.join(LIMIT)
                    assert raised == [None] and x[0] == i and message.tag == i
                else:
                    come.run(LIMIT)
                    box.send(0, np.full(1, float(i)), tag=i).wait(LIMIT)

    as_threads(2, body)


def test_both_threads_hear_that_a_message_was_too_long():
    def body(world):
        with world.mailbox() as box, world.barrier() as come:
            if world.rank == 0:
                message = box.receive(1, np.zeros(1))
                thread, raised = beside(lambda: message.wait(LIMIT))
                wait_until(lambda: is_awaited(message))
                with pytest.raises(libsched.Busy):
                    message.cancel()
                with pytest.raises(libsched.Timeout):
                    message.wait(0.05)
                come.run(LIMIT)
                for _ in range(2):
                    with pytest.raises(libsched.BoundsError):
                        message.wait(LIMIT)
                thread.join(LIMIT)
                assert isinstance(raised[0], libsched.BoundsError)
            else:
                come.run(LIMIT)
                try:
                    box.send(0, np.zeros(2)).wait(LIMIT)
                except libsched.Error:
                    pass
            come.run(LIMIT)

    as_threads(2, body)


# For each wait: code that waits, and a condition that is true once a thread is in the wait.
DAEMONS = {
    "run": ("late.run()", "world.diagnose()[0] == 1"),
    "message": ("made.append(box.receive(1, x)); made[0].wait()", "made and waiting.is_awaited(made[0])"),
    "busy": ("busy()", "len(made) > 99"),
}


@pytest.mark.parametrize("name", DAEMONS)
def test_a_daemon_thread_waits_when_the_interpreter_ends(name):
    wait, is_waiting = DAEMONS[name]
    for _ in range(3):
        done = launch(2, f"""
        import threading, numpy as np
        world = libsched.init()
        x, made = np.zeros(3), []
        mine, late, box = world.barrier(), world.barrier(), world.mailbox()
        def busy():
            while True:
                world.stats(), world.describe()
                made.append(None)
        def wait():
            if world.rank == 0:
                {wait}
        threading.Thread(target=wait, daemon=True).start()
        mine.run(30)
        events = waiting.SharedEvents()
        if world.rank == 0:
            waiting.wait_until(lambda: {is_waiting})
            events.set("it waits")
        events.wait("it waits")
        print("end", flush=True)
        """)
        assert done.status == 0 and done.output.count("end") == 2, done.output
        assert "terminate" not in done.output and "Fatal" not in done.output, done.output


WAITS = {
    "init": "pass",
    "split": "world.split(0)",
    "split_ranks": "world.split_ranks([0, 1], 7)",
    "shrink": "world.shrink()",
}


@pytest.mark.parametrize("name", WAITS)
def test_ctrl_c_ends_a_collective_call_that_nobody_else_makes(name):
    """Rank 1 does not make the call, and ends after rank 0's wait. An object that rank 0's call creates after the wait
    is destroyed."""
    done = launch(2, f"""
    import threading
    slow = int(os.environ["LSCHED_RUN_RANK"]) == 1
    events = waiting.SharedEvents()
    def threads():
        return set(os.listdir("/proc/self/task"))
    def interrupt_later():
        before = threads()
        def interrupt():
            known = before | {{str(threading.get_native_id())}}
            waiting.wait_until(lambda: threads() - known)  # the library makes the call in a new thread
            interrupt_later.at = time.monotonic()
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=interrupt).start()
    def stay_away():
        events.wait("verdict")
        os._exit(0)
    if {name == "init"}:
        if slow:
            stay_away()
        interrupt_later()
    try:
        world = libsched.init(commit_timeout=20)
        if slow:
            stay_away()
        interrupt_later()
        {WAITS[name]}
    except KeyboardInterrupt:
        os.write(1, f"after {{time.monotonic() - interrupt_later.at}}\\n".encode())
        events.set("verdict")
    """)
    after = [float(line.split()[1]) for line in done.output.splitlines() if line.startswith("after")]
    assert len(after) == 1 and after[0] < 1.5, done.output  # a wait checks for signals ten times a second


def test_an_exchange_that_raises_or_is_interrupted():
    def raises(_):
        raise OSError("planted")

    def interrupted(_):
        signal.signal(signal.SIGINT, signal.default_int_handler)  # an outer process may have disabled SIGINT
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the signal was not heard")

    for exchange, error in ((raises, OSError), (interrupted, KeyboardInterrupt), (lambda mine: [], libsched.Error)):
        with pytest.raises(error):
            libsched.open_with(0, 2, exchange)
    with libsched.open_with(0, 1, lambda mine: [mine]) as world:
        assert world.size == 1


def test_a_ticket_is_awaited_for_so_long():
    def body(world):
        async def late():
            step = world.barrier()
            if world.rank == 0:
                with pytest.raises(asyncio.TimeoutError):
                    await asyncio.wait_for(step.start(), 0.2)
            return step

        step = asyncio.run(late())  # the event loop ends here
        with world.barrier() as come:
            come.run(LIMIT)
        if world.rank == 1:
            step.run(LIMIT)
        with world.barrier() as come:
            come.run(LIMIT)
        step.close()

    as_threads(2, body)


def test_another_interpreter_is_refused_and_disturbs_nothing():
    source = """
import libsched
try:
    import _interpreters as other
except ModuleNotFoundError:
    import _xxsubinterpreters as other
for _ in range(2):
    made = other.create()
    try:
        told = other.run_string(made, "import libsched")
        print(told.msg if told is not None else "served")  # later versions do not raise
    except Exception as error:
        print(error)
    other.destroy(made)
    with libsched.init() as world:
        world.describe()
    try:
        libsched.verify(collective="nothing", ranks=2)
    except libsched.ArgumentError:
        print("as it should be")
"""
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=LIMIT, check=False)
    assert done.stdout.count("main interpreter") == 2 and done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("as it should be") == 2, done.stdout + done.stderr


def test_memory_of_a_world_outlives_it_while_it_is_looked_at():
    (world,) = libsched.open_threads(1, region_bytes=64 << 20)
    views = [np.frombuffer(world.empty(1 << 20), "f4") for _ in range(2)]
    step = world.allreduce(views[0])
    with pytest.raises(libsched.Busy):
        world.close()
    step.close()
    world.close()
    assert not world.is_open
    with pytest.raises(libsched.StateError):
        world.barrier()
    for view in views:
        view[:] = 7
        assert view.sum() == 7 * view.size
    while views:
        views.pop()
        del view
        view = None


def test_memory_that_was_made_for_this_alone():
    class Fresh:
        """An object whose __dlpack__ exports memory that no other object keeps alive."""

        def __dlpack__(self, **options):
            return np.full(100_000, 3.0).__dlpack__(**options)

        def __dlpack_device__(self):
            return (1, 0)

    def body(world):
        given = Fresh()
        result = np.zeros(100_000)
        with world.allreduce(given, result) as step:
            others = [np.full(100_000, float(i)) for i in range(20)]
            step.run(LIMIT)
            return result[0], result[-1], len(others)

    assert as_threads(2, body) == [(6, 6, 20)] * 2


def test_arrays_that_come_later_have_the_right_length():
    def body(world):
        x, y = np.ones(4), np.zeros(4 * world.size)
        root = world.rank == 0
        with world.gather(x, y if root else None) as step:
            step.run(LIMIT)
            with pytest.raises(libsched.ArgumentError):
                step.rebind(np.ones(5), np.zeros(4 * world.size) if root else None)
            step.rebind(np.ones(4), np.zeros(4 * world.size))
            step.run(LIMIT)
        with world.barrier() as step, pytest.raises(libsched.ArgumentError):
            step.rebind(x, y)

    as_threads(3, body)


def test_a_schedule_that_a_peer_has_given_up_before_this_rank_made_it():
    """Rank 0 has already given the schedule up when rank 1 creates it, so every run of rank 1 raises at once."""
    is_given_up, is_over = threading.Event(), threading.Event()

    def body(world):
        world.nonblocking = True
        if world.rank == 0:
            with pytest.raises(libsched.Timeout):
                with world.allreduce(np.ones(4)) as step:
                    step.run(0.2)
            is_given_up.set()
            assert is_over.wait(LIMIT)
            return
        assert is_given_up.wait(LIMIT)
        x = np.ones(4)
        step = world.allreduce(x)
        begin = time.monotonic()
        for _ in range(3):
            with pytest.raises(libsched.Error):
                step.run(5)
        assert time.monotonic() - begin < 3
        step._abandon(is_cancelled=True)
        is_over.set()

    as_threads(2, body, idle="park")


def test_one_thread_looks_and_another_waits():
    def body(world):
        with world.mailbox() as box, world.barrier() as come:
            for i in range(300):
                if world.rank == 0:
                    x = np.zeros(1 if i % 2 else 3)
                    message = box.receive(1, x)
                    thread, raised = beside(lambda: message.wait(LIMIT))
                    come.run(LIMIT)
                    told = None
                    try:
                        while not message.test():
                            pass
                    except libsched.BoundsError as error:
                        told = error
                    thread.join(LIMIT)
                    is_too_long = bool(i % 2)
                    assert (told is not None) == is_too_long
                    assert isinstance(raised[0], libsched.BoundsError) == is_too_long
                    assert message.rank == 1 and (i % 2 or message.bytes == 24)
                else:
                    come.run(LIMIT)
                    try:
                        box.send(0, np.ones(3)).wait(LIMIT)
                    except libsched.BoundsError:
                        pass
            come.run(LIMIT)

    as_threads(2, body)


def test_memory_does_not_make_a_world_that_is_in_use_end():
    is_refused = threading.Event()

    def body(world):
        view = world.empty(1024)
        if world.rank == 0:
            parts = []
            calls = world._commits
            thread, raised = beside(lambda: parts.append(world.split(0)))
            wait_until(lambda: world._commits > calls)
            with pytest.raises(libsched.Busy):
                world.close()
            is_refused.set()
            builder = world.builder()
            assert view.nbytes == 1024
        if world.rank == 1:
            assert is_refused.wait(LIMIT)
            world.split(0).close()
        else:
            thread.join(LIMIT)
            assert raised == [None]
            with pytest.raises(libsched.Busy):
                world.close()  # a builder is open
            del builder
            parts[0].close()

    as_threads(2, body)


def test_views_end_with_their_schedule():
    def body(world):
        gradient, update = np.ones(100, "f4"), np.zeros(100, "f4")
        step = world.sparse_allreduce(gradient, update, 10)
        step.run(LIMIT)
        view = step.residual()
        other = np.frombuffer(view, "f4")
        with pytest.raises(libsched.Busy):
            step.close()
        assert other[0] == other[0].item()
        del other
        view = step.residual()
        cast = view.cast("B")
        with pytest.raises(libsched.Busy):
            step.close()
        del cast
        step.close()
        with pytest.raises(ValueError):
            view[0]
        with world.partial(3, "f4") as sums:
            result, _ = sums.collect_view(sums.offer(np.ones(3, "f4")), LIMIT)
            assert result.cast("B").nbytes == 12

    as_threads(2, body)


def test_counts_of_rounds_are_checked():
    def body(world):
        p = world.size
        with world.collective("alltoallv", capacity=libsched.ANY_COUNT, dtype="f64") as step:
            x, y, ones = np.ones(p), np.zeros(p), [1] * p
            for wrong in ({"send_counts": [1], "recv_counts": ones}, {"send_counts": ones, "recv_counts": ones + [1]},
                          {"send_counts": ones, "recv_counts": ones, "received": np.zeros(0, "u8")},
                          {"send_counts": ones, "recv_counts": ones, "send_displacements": [0]}):
                with pytest.raises(libsched.ArgumentError):
                    step.start_with(x, y, **wrong)
            with pytest.raises(libsched.ArgumentError):
                step.start_with(np.ones(p, "f4"), np.zeros(p, "f4"), send_counts=ones, recv_counts=ones)
            step.start_with(x, y, send_counts=np.ones(p, "u8"), recv_counts=ones).wait(LIMIT)
            assert (y == 1).all()
        for name in ("allreduce", "bcast"):
            with pytest.raises(libsched.ArgumentError):
                world.collective(name, x, x, count=200000, op="sum" if name == "allreduce" else None)

    as_threads(3, body)


def test_many_tickets_are_awaited():
    def body(world):
        async def main():
            late = [world.barrier() for _ in range(20)]
            soon = world.barrier()
            waits = [asyncio.ensure_future(_wait(each)) for each in late] if world.rank == 0 else []
            await _wait(soon)
            if world.rank == 1:
                waits = [asyncio.ensure_future(_wait(each)) for each in late]
            await asyncio.gather(*waits)
            for each in (*late, soon):
                each.close()

        async def _wait(step):
            await step.start()

        asyncio.run(asyncio.wait_for(main(), LIMIT))

    as_threads(2, body)


def test_what_could_not_be_made_says_nothing_at_its_end():
    (world,) = libsched.open_threads(1, region_bytes=64 << 20)
    world.close()
    for make in (world.mailbox, world.barrier):
        with pytest.raises(libsched.StateError):
            make()
