"""Tests of deaths, early exits, forks, signals and cycles. Ranks are processes or threads."""

import gc
import re
import subprocess
import sys
import weakref

import numpy as np
import pytest

import libsched
from conftest import HERE, LIMIT, as_threads, launch
from waiting import be_late, wait_until

LOOP = """
    import numpy as np
    def loop(world, body):
        x = np.ones(1000)
        try:
            with world, world.allreduce(x) as step:
                for i in range(1_000_000):
                    body(i)
                    step.run(timeout=30)
        except libsched.Error as error:
            os.write(1, f"rank {world.rank}: {type(error).__name__} of rank {error.rank}\\n".encode())  # in one piece
            waiting.SharedEvents().set(f"{world.rank} has heard")
            os._exit(7)
"""
ENDS = {
    "is killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "raises": "raise ValueError('planted')",
    "exits": "sys.exit(0)",
}


@pytest.mark.parametrize("end", ENDS)
def test_others_hear_of_a_rank_that(end):
    done = launch(3, LOOP + f"""
    world = libsched.init()
    def body(i):
        if i == 50 and world.rank == 1:
            {ENDS[end]}
    loop(world, body)
    """)
    # The output of rank 1's traceback arrives in pieces. Lines of other ranks may be between two pieces.
    heard = re.findall(r"rank (\d): (?:PeerLost|Cancelled) of rank 1\n", done.output)
    assert sorted(heard) == ["0", "2"], done.output


def test_lost_ranks_are_listed():
    done = launch(3, """
    world = libsched.init()
    assert world.lost() == []
    step = world.barrier()
    try:
        for i in range(1_000_000):
            if i == 10 and world.rank == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            step.run(timeout=30)
    except libsched.PeerLost:
        os.write(1, f"lost: {world.lost()[:1]}\\n".encode())
    os._exit(0)
    """)
    assert done.output.count("lost: [1]") == 2, done.output


def test_arrays_may_change_as_soon_as_a_wait_has_failed():
    """Ranks that finish the round after the failure get the right result, because the data was sent before the
    failure."""
    def body(world):
        for trial in range(40):
            array = np.full(200_000, world.rank + 1.0)
            step = world.allreduce(array, algorithm="tree" if trial % 2 else "ring")
            with world.barrier() as all_have_created:
                all_have_created.run(LIMIT)
            try:
                ticket = step.start()
                if world.rank == trial % world.size:
                    be_late(trial * 2e-5)
                    step.cancel()
                else:
                    ticket.wait(LIMIT)
                    assert (array == world.size * (world.size + 1) / 2).all()
            except (libsched.Cancelled, libsched.PeerLost):
                pass
            array[:] = -1e6
            step.close(LIMIT)

    as_threads(3, body)


def test_others_hear_of_a_rank_that_is_killed_while_its_children_live():
    """The rank forks children, like workers of a data loader. They inherit all open files and memory of the rank.

    A child lives until the other ranks have noticed the death, or longer than their timeout.
    """
    done = launch(3, LOOP + """
    world = libsched.init()
    def body(i):
        if i == 50 and world.rank == 1:
            if os.fork() == 0:
                try:
                    waiting.SharedEvents().wait("0 has heard", "2 has heard", limit=40)
                finally:
                    os._exit(0)
            os.kill(os.getpid(), signal.SIGKILL)
    loop(world, body)
    """)
    assert done.output.count("PeerLost of rank 1") == 2, done.output


def test_a_child_is_told_that_the_world_is_not_its_own():
    done = launch(2, """
    import numpy as np, multiprocessing
    world = libsched.init()
    x = np.ones(8)
    step = world.allreduce(x)
    step.run(30)
    def child():
        for call in (step.run, world.barrier, world.describe, step.close, world.close):
            try:
                call()
            except libsched.StateError as error:
                assert "forked" in error.text
            else:
                os._exit(5)
        print("told", flush=True)
    if __name__ == "__main__":
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
        process.join(20)
        assert process.exitcode == 0, process.exitcode
        step.run(30)
        step.close()
        world.close()
        print("still there", flush=True)
    """)
    assert done.status == 0 and done.output.count("told") == 2 and done.output.count("still there") == 2


@pytest.mark.parametrize("times", [5])
def test_the_interpreter_may_end_with_all_open(times):
    """The program leaves schedules, messages and rounds open. A cycle of references keeps these objects alive."""
    for _ in range(times):
        done = launch(2, """
    import numpy as np
    world = libsched.init()
    x, y = np.ones(100_000), np.zeros(3, "f4")
    step = world.allreduce(x)
    step.run(30)
    sums = world.partial(3, "f4", activation="solo")
    sums.offer(y + 1)
    box = world.mailbox()
    waiting = box.receive(1 - world.rank, y)
    late = world.allreduce(np.zeros(5))
    if world.rank == 0:
        begun = late.start()
    cycle = [step, sums, box]
    cycle.append(cycle)
    world.barrier().run(30)
    print("end", flush=True)
        """)
        assert done.output.count("end") == 2
        assert "Fatal" not in done.output and "leaked" not in done.output and "Traceback" not in done.output
        assert done.status == 0


def test_ctrl_c_ends_a_wait():
    source = """
import libsched, numpy as np, time, threading, os, signal, sys
sys.path.append(sys.argv[1])
from waiting import wait_until
signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may have been started without
worlds = libsched.open_threads(2, region_bytes=1 << 24)
made = []
helper = threading.Thread(target=lambda: made.append(worlds[1].allreduce(np.zeros(3))))
helper.start()
step = worlds[0].allreduce(np.zeros(3))
helper.join()
def interrupt():
    wait_until(lambda: worlds[0].diagnose()[0] == 1)  # the round waits for rank 1
    interrupt.at = time.monotonic()
    os.kill(os.getpid(), signal.SIGINT)
threading.Thread(target=interrupt).start()
try:
    step.run()
except KeyboardInterrupt:
    print("after", time.monotonic() - interrupt.at)
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", source, HERE], capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[1]) < 5  # seconds; a wait checks for signals ten times a second


def test_cycles_are_collected_and_their_memory_stays_while_it_is_used():
    class Array(np.ndarray):
        pass

    def body(world):
        x = np.zeros(1000).view(Array)
        step = world.allreduce(x)
        x.step, step.x = step, x
        step.run(LIMIT)
        seen = weakref.ref(x)
        step.close()
        del x, step
        gc.collect()
        return seen() is None

    assert all(as_threads(1, body))


def test_collection_during_a_round():
    """A schedule loses its last reference while its round runs. Its arrays stay until other ranks have read them."""

    def body(world):
        if world.rank == 0:
            x = np.ones(200_000)
            step = world.allreduce(x)
            step.start()
            del x, step
            gc.collect()
            with world.barrier() as come:
                come.run(LIMIT)
        else:
            y = np.ones(200_000)
            with world.allreduce(y) as step:
                with world.barrier() as come:
                    come.run(LIMIT)
                step.run(LIMIT)
            assert (y == 2).all()
        with world.barrier() as all_done:
            all_done.run(LIMIT)
        if world.rank == 0:
            assert len(world._abandoned) == 1
            world._give_up()

    with pytest.warns(ResourceWarning):
        as_threads(2, body)


def test_a_ticket_is_awaited():
    import asyncio

    def body(world):
        async def main():
            x = np.ones(3)
            with world.allreduce(x) as step:
                for _ in range(5):
                    await step.start()
            return x[0]

        return asyncio.run(main())

    assert as_threads(2, body) == [32, 32]


def test_a_thread_that_waits_lets_others_run():
    """A world of threads would hang if a wait held the interpreter's lock. The test makes nine thousand waits."""

    def body(world):
        x = np.zeros(1)
        with world.allreduce(x) as step:
            for _ in range(3000):
                step.run(LIMIT)

    as_threads(3, body)


def test_memory_does_not_grow_with_calls():
    def body(world):
        def resident():
            with open("/proc/self/statm") as file:
                return int(file.read().split()[1]) * 4096

        x = np.zeros(10)
        with world.allreduce(x) as step:
            for _ in range(2000):
                step.run(LIMIT)
            before = resident()
            for _ in range(50_000):
                step.run(LIMIT)
                step.start().wait(LIMIT)
            return resident() - before

    assert as_threads(1, body)[0] < 1 << 20


def test_the_command_is_in_the_package():
    done = subprocess.run([sys.executable, "-m", "libsched", "--version"], capture_output=True, text=True,
                          timeout=LIMIT, check=False)
    assert done.returncode == 0 and libsched.__version__ in done.stdout


def test_messages_that_nobody_waits_for_arrive_all_the_same():
    def body(world):
        with world.mailbox() as box:
            if world.rank == 0:
                for i in range(1500):
                    box.send(1, np.full(2000, float(i)))
                    if i % 100 == 0:
                        gc.collect()
            else:
                come = np.zeros(2000)
                for i in range(1500):
                    box.receive(0, come).wait(LIMIT)
                    assert (come == i).all()
            with world.barrier() as all_done:
                all_done.run(LIMIT)

    as_threads(2, body)


@pytest.mark.parametrize("ranks", [2, 3])
def test_a_world_is_given_up_while_messages_are_awaited(ranks):
    """Rank 0 gives the world up while a thread waits for a message. The world is closed nevertheless, so the other
    ranks notice the end at once."""
    kept = []

    def body(world):
        box, come = world.mailbox(), np.zeros(4)
        if world.rank == 0:
            kept.extend(box.receive(source, come) for source in range(1, ranks))
            with pytest.raises(libsched.Timeout):
                kept[0].wait(0.01)
            with pytest.raises(KeyError), world:
                raise KeyError
            assert not world.is_open and not any(each.is_pending for each in kept)
            with pytest.raises(libsched.Cancelled):
                kept[0].wait(LIMIT)
        else:
            with pytest.raises(libsched.PeerLost) as heard:
                box.receive(0, come).wait(LIMIT)
            assert heard.value.rank == 0
            box.close()

    as_threads(ranks, body)


def test_a_round_whose_ticket_was_dropped_has_its_memory():
    def body(world):
        first, second = np.ones(100_000), np.zeros(100_000)
        with world.allreduce(first, second, depth=2) as step, world.barrier() as come:
            if world.rank == 0:
                step.start_with(np.ones(100_000), np.zeros(100_000))
                gc.collect()
                come.run(LIMIT)
            else:
                come.run(LIMIT)
                step.start_with(first, second).wait(LIMIT)
                assert (second == 2).all()
            come.run(LIMIT)
            if world.rank == 0:
                step.start_with(first, second)
            else:
                step.start_with(first, second).wait(LIMIT)
            come.run(LIMIT)
            wait_until(lambda: world.stats()["rounds"] == 5)  # two rounds of `step`, and three of `come`

    as_threads(2, body)


def test_a_child_that_was_forked_off_before_may_have_a_world():
    source = """
import os, libsched
if os.fork() == 0:
    with libsched.init() as world:
        os._exit(0 if world.size == 1 else 1)
assert os.wait()[1] == 0
"""
    subprocess.run([sys.executable, "-c", source], timeout=LIMIT, check=True)
