"""Bad input is refused with a helpful text, and changes no state."""

import pickle
import sys
import types

import numpy as np
import pytest

import libsched
from conftest import LIMIT, as_threads, launch


def test_what_is_no_array():
    def body(world):
        cases = [
            (lambda: world.allreduce([1, 2]), "input: this is not an array"),
            (lambda: world.allreduce(np.zeros(4)[::2]), "contiguous"),
            (lambda: world.allreduce(np.zeros(4, "i2")), "dtype"),
            (lambda: world.allreduce(np.zeros(4), np.zeros(3)), "4 elements and output 3"),
            (lambda: world.allreduce(np.zeros(4, "f4"), np.zeros(4)), "different dtypes: float32 and float64"),
            (lambda: world.allreduce(b"abcd"), "read-only"),
            (lambda: world.allreduce(np.zeros(4), op="plus"), "choose one of 'sum'"),
            (lambda: world.allreduce(np.zeros(4), op="band"), "f64"),
            (lambda: world.allreduce(np.zeros(4), algorithm="fast"), "fast"),
            (lambda: world.allreduce(np.zeros(4), divisor="four"), "divisor"),
            (lambda: world.reduce_scatter(np.zeros(4), counts=[1, 2]), "2 entries: expected 1"),
            (lambda: world.collective("all"), "allreduce"),
            (lambda: world.partial(4, "f4", activation="now"), "now"),
            (lambda: world.allreduce(np.zeros(4)).run(-1), "timeout"),
        ]
        for call, words in cases:
            with pytest.raises(libsched.ArgumentError, match=words):
                call()
        with pytest.raises(TypeError):
            world.collective("allreduce", np.zeros(1), colour=3)
        world._give_up()

    as_threads(1, body)


def test_ranks_that_disagree_hear_of_both_sides():
    def body(world):
        with pytest.raises(libsched.Mismatch, match="count 4.*count 5|count 5.*count 4"):
            world.allreduce(np.zeros(4 + world.rank))
        with world.allreduce(np.zeros(3)) as step:
            step.run(LIMIT)

    as_threads(2, body)


def test_a_rank_that_does_not_come_is_named():
    def body(world):
        if world.rank == 0:
            with pytest.raises(libsched.Timeout, match="rank 1") as caught:
                world.allreduce(np.zeros(3))
            assert caught.value.rank == 1 and caught.value.status == "LSCHED_ERR_TIMEOUT"
            assert isinstance(caught.value, TimeoutError)

    worlds = libsched.open_threads(2, commit_timeout=0.2, region_bytes=1 << 24)
    body(worlds[0])
    for world in worlds:
        world._give_up()


def test_a_round_that_others_do_not_start_is_named_and_given_up():
    def body(world):
        step = world.allreduce(np.zeros(3))
        if world.rank != 2:
            with pytest.raises(libsched.Timeout) as caught:
                step.run(0.1)
            assert caught.value.rank == 2 and caught.value.round == 1, caught.value
            rank, text = world.diagnose()
            assert "allreduce" in text
        with world.barrier() as all_know:
            all_know.run(LIMIT)
        if world.rank == 0:
            step.cancel()
        with world.barrier() as all_know:
            all_know.run(LIMIT)
        with pytest.raises(libsched.Cancelled) as caught:
            step.run(LIMIT)
        assert caught.value.rank == 0
        step.close(LIMIT)

    as_threads(3, body)


def test_a_second_round_and_what_was_closed():
    def body(world):
        step = world.allreduce(np.zeros(3))
        ticket = step.start()
        ticket.wait(LIMIT)
        step.close()
        step.close()
        for call in (step.run, step.start, step.text, ticket.wait, ticket.test):
            with pytest.raises(libsched.StateError):
                call()
        with pytest.raises(libsched.Busy):
            with world.allreduce(np.zeros(3)):
                world.close()
                raise AssertionError("closed with a schedule in it")

    as_threads(1, body)


def test_an_error_is_told_across_processes():
    error = libsched.PeerLost("rank 3 has died", "LSCHED_ERR_PEER", 3, None, 7)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is libsched.PeerLost and copy.rank == 3 and copy.round == 7 and str(copy) == str(error)
    assert isinstance(error, ConnectionError) and isinstance(error, RuntimeError)


def test_arrays_of_another_length_are_refused_wherever_they_come_in():
    def body(world):
        many, one = np.ones(1000), np.zeros(1)
        with world.allreduce(many, np.zeros(1000)) as step:
            for wrong in (one, np.zeros(1000, "f4")):
                with pytest.raises(libsched.ArgumentError, match="expected 1000 of float64"):
                    step.rebind(many, wrong)
            step.run(LIMIT)
        with world.allreduce(many, np.zeros(1000), depth=2) as step:
            with pytest.raises(libsched.ArgumentError, match="expected"):
                step.start_with(many, one)
        with world.collective("allgatherv", dtype="int64", capacity=libsched.ANY_COUNT) as step:
            room = np.zeros(1, "i8")
            with pytest.raises(libsched.ArgumentError, match="send_counts reach"):
                step.start_with(room, np.zeros(9, "i8"), send_counts=[2], recv_counts=[9])
            with pytest.raises(libsched.ArgumentError, match="recv_counts reach"):
                step.start_with(room, room, send_counts=[1], recv_counts=[9])
            for which in ("send_displacements", "recv_displacements"):
                with pytest.raises(libsched.ArgumentError, match=f"{which} has 0 numbers: expected 1"):
                    step.start_with(room, room, send_counts=[1], recv_counts=[1], **{which: []})
        to = world.builder()
        to.output("f64", 5)
        with pytest.raises(libsched.ArgumentError, match=r"have \[1\] elements, but the schedule declares \[5\]"):
            to.commit([], [one])
        with world.partial(1000, "f8") as longer, world.partial(1, "f8") as shorter:
            ticket = longer.offer(many)
            with pytest.raises(libsched.ArgumentError, match="another schedule"):
                shorter.collect(ticket, one)
            longer.collect(ticket, None, LIMIT)

    as_threads(1, body)


def test_a_schedule_that_has_failed_says_of_whom():
    def body(world):
        step = world.allreduce(np.zeros(3))
        with world.barrier() as all_have_it:
            all_have_it.run(LIMIT)
        if world.rank == 1:
            step.cancel()
        with world.barrier() as all_know:
            all_know.run(LIMIT)
        for call in (step.start, lambda: step.rebind(np.zeros(3), np.zeros(3))):
            with pytest.raises(libsched.Cancelled) as caught:
                call()
            assert caught.value.rank == 1
        step.close(LIMIT)

    as_threads(2, body)


def test_a_machine_without_a_gpu_says_so():
    done = launch(1, """
    try:
        libsched.init().attach_cuda()
    except libsched.Unsupported as error:
        print("refused:", error)
    """, CUDA_VISIBLE_DEVICES="")
    assert done.output.startswith("refused: ") and "CUDA" in done.output


class OneRank:
    """A communicator of an MPI implementation that is not the launcher's, so each process is a world of one rank."""

    def Get_rank(self):
        return 0

    def Get_size(self):
        return 1

    def allgather(self, mine):
        return [mine]


@pytest.fixture
def other_mpi(monkeypatch):
    """Replaces mpi4py.MPI by a module that reports Open MPI, in a process that was not started by Open MPI."""
    module = types.ModuleType("mpi4py.MPI")
    module.COMM_WORLD = OneRank()
    module.Get_library_version = lambda: "Open MPI v4.1.4, package: of a test\nsecond line"
    monkeypatch.setattr(OneRank, "__module__", "mpi4py.MPI")
    monkeypatch.setitem(sys.modules, "mpi4py.MPI", module)
    for name in ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "LSCHED_WORLD"):
        monkeypatch.delenv(name, raising=False)
    return module


def test_the_launcher_of_another_mpi_is_refused_by_both_names(other_mpi, monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "2")
    with pytest.raises(libsched.Unsupported, match=r"one of 2 .*PMI_SIZE, set by MPICH.*has loaded Open MPI v4.1.4"):
        libsched.init(other_mpi.COMM_WORLD)
    with pytest.raises(libsched.Unsupported, match=r"one of 2 .*PMI_SIZE, set by MPICH.*pass a communicator of mpi4py"):
        libsched.init()
    monkeypatch.setenv("LSCHED_WORLD", "alone")
    with libsched.init(other_mpi.COMM_WORLD) as world:
        assert world.size == 1


def test_a_communicator_of_one_rank_in_a_larger_mpi_is_a_world(other_mpi, monkeypatch):
    monkeypatch.setenv("PMI_SIZE", "3")
    monkeypatch.setattr(other_mpi, "COMM_WORLD", type("World", (), {"Get_size": lambda self: 3})())
    with libsched.init(OneRank()) as world:
        assert world.size == 1


def test_a_program_of_mpi_joins_the_world_of_lsched_run():
    done = launch(3, """
        class Alone:
            Get_rank, Get_size, allgather = lambda self: 0, lambda self: 1, lambda self, mine: [mine]
        with libsched.init(Alone()) as world:
            os.write(1, f"rank {world.rank} of {world.size}\\n".encode())
    """)
    assert done.status == 0
    assert sorted(done.output.split("\n"))[-3:] == [f"rank {rank} of 3" for rank in range(3)]


def test_a_rank_of_another_host_that_does_not_connect_is_named():
    def exchange(mine):
        other = bytearray(mine)
        other[40:45] = b"other"  # the host id in an introduction
        return [mine, bytes(other)]

    with pytest.raises(libsched.Timeout, match="rank 1 did not connect to this rank in time"):
        libsched.open_with(0, 2, exchange, commit_timeout=0.5)


@pytest.mark.parametrize("has_memory", [False, True])
def test_a_world_names_what_is_open(has_memory):
    def body(world):
        memory = world.empty(8) if has_memory else None
        barrier, sums, box = world.barrier(), world.allreduce(np.zeros(4)), world.mailbox()
        with pytest.raises(libsched.Busy, match="barrier.*allreduce.*a mailbox"):
            world.close()
        box.close()
        barrier.close()
        with pytest.raises(libsched.Busy, match="allreduce") as caught:
            world.close()
        assert "barrier" not in caught.value.text
        sums.close()
        world.close()
        del memory

    as_threads(3, body)
