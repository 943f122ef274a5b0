"""Tests that compare each collective with numpy."""

import numpy as np
import pytest

import libsched
from conftest import LIMIT, as_threads

RANKS = (1, 2, 3, 5, 7)
COUNTS = (0, 1, 37)


def given(rank: int, count: int, dtype="i8") -> np.ndarray:
    return (np.arange(count) * 7 + rank * 13 + 1).astype(dtype)


def run(step) -> None:
    with step:
        step.run(timeout=LIMIT)
        step.run(timeout=LIMIT)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("count", COUNTS)
def test_allreduce(ranks, count):
    numpy_of = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}

    def body(world):
        for op, how in numpy_of.items():
            for dtype in ("i1", "u1", "i4", "i8", "u8", "f4", "f8"):
                x, y = given(world.rank, count, dtype), np.empty(count, dtype)
                run(world.allreduce(x, y, op))
                assert (y == how.reduce([given(r, count, dtype) for r in range(ranks)], dtype=dtype)).all(), op
        x = given(world.rank, count, "f4")
        with world.allreduce(x, divisor="ranks") as mean:
            mean.run(LIMIT)
        assert (x == (sum(given(r, count, "f8") for r in range(ranks)) / ranks).astype("f4")).all()

    as_threads(ranks, body)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("count", COUNTS)
def test_blocks(ranks, count):
    counts = [(count + r) % 5 for r in range(ranks)]
    begins = np.concatenate([[0], np.cumsum(counts)])

    def body(world):
        r = world.rank
        root = ranks // 2
        blocks = np.concatenate([given(each, count) for each in range(ranks)])
        uneven = np.concatenate([given(each, counts[each]) for each in range(ranks)])
        all = np.empty(ranks * count, "i8")
        run(world.allgather(given(r, count), all))
        assert (all == blocks).all()
        all = np.empty(sum(counts), "i8")
        run(world.allgather(given(r, counts[r]), all, counts=counts))
        assert (all == uneven).all()
        all = np.zeros(ranks * count, "i8")
        all[r * count:(r + 1) * count] = given(r, count)
        run(world.allgather(all[r * count:(r + 1) * count], all))
        assert (all == blocks).all()

        at_root = np.empty(ranks * count, "i8") if r == root else None
        run(world.gather(given(r, count), at_root, root))
        assert at_root is None or (at_root == blocks).all()
        at_root = np.empty(sum(counts), "i8") if r == root else None
        run(world.gather(given(r, counts[r]), at_root, root, counts=counts))
        assert at_root is None or (at_root == uneven).all()

        mine = np.empty(count, "i8")
        run(world.scatter(blocks if r == root else None, mine, root))
        assert (mine == given(r, count)).all()
        mine = np.empty(counts[r], "i8")
        run(world.scatter(uneven if r == root else None, mine, root, counts=counts))
        assert (mine == given(r, counts[r])).all()

        mine = np.empty(count, "i8")
        run(world.reduce_scatter(given(r, ranks * count), mine))
        assert (mine == sum(given(each, ranks * count) for each in range(ranks))[r * count:(r + 1) * count]).all()
        mine = np.empty(counts[r], "i8")
        run(world.reduce_scatter(given(r, sum(counts)), mine, counts=counts))
        assert (mine == sum(given(each, sum(counts)) for each in range(ranks))[begins[r]:begins[r + 1]]).all()

    as_threads(ranks, body)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("count", COUNTS)
def test_others(ranks, count):
    def body(world):
        r, root = world.rank, ranks - 1
        x = given(r, count)
        run(world.bcast(x, root))
        assert (x == given(root, count)).all()

        y = np.empty(count, "i8")
        run(world.reduce(given(r, count), y, root=root))
        assert r != root or (y == sum(given(each, count) for each in range(ranks))).all()
        run(world.scan(given(r, count), y))
        assert (y == sum(given(each, count) for each in range(r + 1))).all()
        y[:] = -1
        run(world.scan(given(r, count), y, exclusive=True))
        assert (y == (sum(given(each, count) for each in range(r)) if r else -1)).all()

        y = np.empty(ranks * count, "i8")
        run(world.alltoall(given(r, ranks * count), y))
        assert (y == np.concatenate([given(each, ranks * count)[r * count:(r + 1) * count]
                                     for each in range(ranks)])).all()
        to = [(r + each + count) % 4 for each in range(ranks)]
        of = [(each + r + count) % 4 for each in range(ranks)]
        y = np.empty(sum(of), "i8")
        run(world.alltoall(given(r, sum(to)), y, counts=to, recv_counts=of))
        begin = 0
        for each in range(ranks):
            theirs = [(each + peer + count) % 4 for peer in range(ranks)]
            block = given(each, sum(theirs))[sum(theirs[:r]):sum(theirs[:r + 1])]
            assert (y[begin:begin + of[each]] == block).all()
            begin += of[each]
        run(world.barrier())

    as_threads(ranks, body)


def test_counts_of_each_round():
    """Runs allgathers of lists, with several rounds outstanding. Only the sender knows the length of a list."""

    def body(world):
        with world.collective("allgatherv", dtype="int64", capacity=libsched.ANY_COUNT, depth=3) as step:
            for first in range(0, 30, 3):
                begun = []
                for i in range(first, first + 3):
                    room, received = np.full(3 * 10, -1, "i8"), np.zeros(3, "u8")
                    mine = given(world.rank, (i + world.rank) % 10)
                    begun.append((i, room, received, step.start_with(
                        mine, room, send_counts=[len(mine)], recv_counts=[10] * 3, recv_displacements=[0, 10, 20],
                        received=received)))
                for i, room, received, ticket in begun:
                    ticket.wait(LIMIT)
                    for r in range(3):
                        assert received[r] == (i + r) % 10
                        assert (room[10 * r:10 * r + received[r]] == given(r, int(received[r]))).all()

    as_threads(3, body)


def test_adasum_is_a_sum_of_what_is_orthogonal_and_a_mean_of_what_is_not():
    def body(world):
        x = np.zeros(8, "f4")
        x[world.rank] = 2.0
        x[4:] = 3.0
        with world.adasum(x, tensors=[(0, 4), (4, 4)]) as step:
            step.run(LIMIT)
            assert step.non_finite_tensors() == [False, False]
        assert (x == [2, 2, 2, 2, 3, 3, 3, 3]).all()

    as_threads(4, body)


def test_rebind_and_start():
    def body(world):
        x, y = np.full(5, world.rank, "f8"), np.zeros(5)
        with world.allreduce(x, y) as step:
            for i in range(10):
                other, result = np.full(5, i + world.rank, "f8"), np.zeros(5)
                step.rebind(other, result)
                ticket = step.start()
                assert ticket.round == i + 1
                ticket.wait(LIMIT)
                assert ticket.test()
                assert (result == 3 * i + 3).all()

    as_threads(3, body)


def test_arrays_of_all_sorts():
    """bytearrays, array.array, memoryviews and bf16 bits are arrays, too."""
    import array

    def body(world):
        for make in (lambda: bytearray([1, 2, 3]), lambda: array.array("i", [1, 2, 3]),
                     lambda: memoryview(bytearray([1, 2, 3])), lambda: np.array([1, 2, 3], "f2")):
            x = make()
            run(world.allreduce(x, op="max"))
            assert list(x) == [1, 2, 3]
        bits = np.array([0x3F80, 0x4000], "u2")  # 1 and 2
        with world.allreduce(bits, dtype="bf16") as step:
            step.run(LIMIT)
        assert list(bits) == [0x4000, 0x4080]
        flags = np.array([world.rank == 0, False])
        run(world.allreduce(flags, op="max"))
        assert list(flags) == [True, False]
        numbers = np.array([1 + 2j], "c8")
        with world.allreduce(numbers) as step:
            step.run(LIMIT)
        assert numbers[0] == 2 + 4j

    as_threads(2, body)


def test_an_array_that_grows_is_refused_while_it_is_bound():
    def body(world):
        x = bytearray(8)
        with world.allreduce(x) as step:
            with pytest.raises(BufferError):
                x.extend(b"more")
            step.run(LIMIT)
        x.extend(b"more")

    as_threads(1, body)


def test_memory_of_the_world():
    def body(world):
        x = np.frombuffer(world.empty(4 * 1000), "f4")
        x[:] = 1
        run(world.allreduce(x, op="max"))
        assert (x == 1).all()

    as_threads(3, body)


def test_splits():
    def body(world):
        half = world.split(world.rank % 2, -world.rank)
        x = np.array([world.rank])
        with half:
            with half.allreduce(x) as step:
                step.run(LIMIT)
            assert x[0] == sum(range(world.rank % 2, 5, 2))
            assert half.rank_in(0, world) == 4 - world.rank % 2
            assert world.rank_in(world.rank, half) == half.rank
        assert world.split(None if world.rank == 2 else 0) is None if world.rank == 2 else _closed(world.split(0))
        if world.rank in (1, 3):
            with world.split_ranks([3, 1]) as two:
                assert two.rank == (0 if world.rank == 3 else 1)

    def _closed(part):
        part.close()
        return True

    as_threads(5, body)


def test_a_world_that_does_not_wait():
    """Two ranks create schedules in two worlds, in opposite orders, without a deadlock: the creates do not wait."""

    def body(world):
        with world.split(0) as one, world.split(0) as other:
            one.nonblocking = other.nonblocking = True
            x, y = np.ones(3), np.ones(3)
            order = (one, other) if world.rank == 0 else (other, one)
            steps = {id(each): each.allreduce(x if each is one else y) for each in order}
            for each in order:
                ticket = steps[id(each)].start()
                steps[id(each)] = (steps[id(each)], ticket)
            for each in order:
                steps[id(each)][1].wait(LIMIT)
                steps[id(each)][0].close()
            assert (x == 2).all() and (y == 2).all()

    as_threads(2, body)


def test_a_rank_may_only_receive_from_neighbours():
    def body(world):
        mine, got = np.full(2, 7.0), np.zeros(4)
        if world.rank == 1:
            step = world.collective("neighbor_exchange", None, got, sources=[0, 2], recv_counts=[2, 2])
        else:
            step = world.collective("neighbor_exchange", mine, None, destinations=[1], counts=[2])
        with step:
            step.run(LIMIT)
        assert world.rank != 1 or (got == 7).all()

    as_threads(3, body)


def test_tensors_may_be_rows_of_an_array():
    def body(world):
        vector = np.ones(8)
        with world.adasum(vector, tensors=np.array([[0, 4], [4, 4]])) as step:
            step.run(LIMIT)
            assert step.non_finite_tensors() == [False, False]

    as_threads(3, body)
