"""Every pair of dtype and operation gives the result of numpy, or is refused on all ranks."""

import numpy as np
import pytest

import libsched
from conftest import LIMIT, as_threads

RANKS = 3
INTEGERS = ["i1", "u1", "i4", "i8", "u8"]
FLOATS = ["f2", "f4", "f8"]
COMPLEX = ["c8", "c16"]
OTHERS = ["i2", "u2", "u4", "g", "G", "M8[s]", "m8[s]"]  # dtypes of numpy that the library does not support
OPS = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum, "land": np.logical_and,
       "lor": np.logical_or, "lxor": np.logical_xor, "band": np.bitwise_and, "bor": np.bitwise_or,
       "bxor": np.bitwise_xor}
BITS = {"land", "lor", "lxor", "band", "bor", "bxor"}


def is_supported(dtype, op):
    if dtype == "?" or dtype in INTEGERS:
        return True
    return op == "sum" if dtype in COMPLEX else dtype in FLOATS and op not in BITS


def given(rank, count, dtype):
    """Returns small positive and negative numbers and zeros. For bools, all combinations over ranks occur."""
    bits = (np.arange(count) >> rank) & 1
    if dtype == "?":
        return bits.astype(dtype)
    small = bits * (1 + (np.arange(count) + rank) % 3)
    if np.dtype(dtype).kind in "ifcg":
        small = small * (1 - 2 * (np.arange(count) % 5 == rank))
    mine = small.astype(dtype)
    return mine + (np.arange(count) % 2 * 1j).astype(dtype) if dtype in COMPLEX else mine


def wanted(op, values, dtype):
    all_of_them = values[0]
    for each in values[1:]:
        all_of_them = OPS[op](all_of_them, each)
    return all_of_them.astype(dtype)


def reduced(world, way, mine, op):
    """Runs a collective.

    Returns a tuple: the result of this rank or None, the inputs that the result combines, and the slice of their
    elements that the result has.
    """
    all_ranks = [given(r, mine.size, mine.dtype.str[1:] if mine.dtype.kind != "b" else "?") for r in range(RANKS)]
    out = mine.copy()
    if way == "partial":
        with world.partial(mine.size, mine.dtype, op=op) as step:
            step.collect(step.offer(mine), out, LIMIT)
        return out, all_ranks, slice(None)
    part = slice(world.rank * mine.size // RANKS, (world.rank + 1) * mine.size // RANKS)
    made = {"allreduce": lambda: world.allreduce(out, op=op),
            "reduce": lambda: world.reduce(mine, out, op, root=1),
            "scan": lambda: world.scan(out, op=op),
            "reduce_scatter": lambda: world.reduce_scatter(mine, out[:mine.size // RANKS], op),
            "collective": lambda: world.collective("allreduce", mine, out, op=op, count=mine.size)}[way]()
    with made as step:
        step.run(LIMIT)
    if way == "reduce":
        return (out if world.rank == 1 else None), all_ranks, slice(None)
    if way == "scan":
        return out, all_ranks[:world.rank + 1], slice(None)
    return (out[:mine.size // RANKS], all_ranks, part) if way == "reduce_scatter" else (out, all_ranks, slice(None))


@pytest.mark.parametrize("way", ["allreduce", "reduce", "scan", "reduce_scatter", "collective", "partial"])
def test_every_pair_is_numpys_or_refused(way):
    def body(world):
        right = 0
        for dtype in ["?", *INTEGERS, *FLOATS, *COMPLEX]:
            for op in OPS:
                if way == "partial" and dtype in COMPLEX:
                    continue  # partial() does not support this dtype
                mine = given(world.rank, 24, dtype)
                if not is_supported(dtype, op):
                    with pytest.raises(libsched.Error) as caught:
                        reduced(world, way, mine, op)
                    assert caught.value.status in ("LSCHED_ERR_ARGUMENT", "LSCHED_ERR_CONSTRAINT"), caught.value
                    continue
                got, values, part = reduced(world, way, mine, op)
                if got is not None:
                    expected = wanted(op, values, dtype)[part]
                    assert got.tobytes() == expected.tobytes(), (dtype, op, got, expected)
                    right += 1
        return right

    least = 10 * (1 + len(INTEGERS)) + 4 * len(FLOATS) + (0 if way == "partial" else len(COMPLEX))
    assert max(as_threads(RANKS, body)) == least


@pytest.mark.parametrize("dtype", OTHERS)
def test_dtypes_of_numpy_alone_are_refused(dtype):
    def body(world):
        for op in OPS:
            with pytest.raises(libsched.ArgumentError):
                world.allreduce(np.zeros(4, dtype), op=op)

    as_threads(2, body)


def test_masked_arrays_are_refused():
    """A masked array is refused, because its memory contains the masked elements."""
    masked = np.ma.masked_array(np.ones(3), mask=[0, 1, 0])

    def program(world):
        for arrays in ((masked,), (masked, np.zeros(3)), (np.ones(3), masked)):
            with pytest.raises(libsched.ArgumentError, match="masked array"):
                world.allreduce(*arrays)
        mine = masked.filled(0)
        with world.allreduce(mine) as step:
            step.run(LIMIT)
        assert mine.tolist() == [RANKS, 0, RANKS]

    as_threads(RANKS, program)


def test_bools_that_hold_other_bytes_count_as_true():
    def body(world):
        mine = np.array([0, 2, 0, 4], "u1").view("?") if world.rank == 0 else np.array([0, 2, 1, 0], "u1").view("?")
        with world.allreduce(mine) as step:
            step.run(LIMIT)
        assert mine.view("u1").tolist() == [0, 1, 1, 1]
        with pytest.raises(libsched.ArgumentError, match="sum"):
            world.allreduce(mine, divisor="ranks")

    as_threads(2, body)


def test_bools_are_no_numbers_and_complex_numbers_no_pairs():
    def body(world):
        flags, bytes, numbers = np.zeros(4, "?"), np.zeros(4, "u1"), np.zeros(4, "c8")
        with pytest.raises(libsched.ArgumentError, match="bool and uint8"):
            world.allreduce(flags, bytes)
        with pytest.raises(libsched.ArgumentError, match="complex of float32 and float32"):
            world.allreduce(numbers, np.zeros(8, "f4"))
        with world.allreduce(flags, np.zeros(4, "?")) as step:
            with pytest.raises(libsched.ArgumentError, match="expected 4 of bool"):
                step.rebind(flags, bytes)
        with world.partial(8, "f4") as sums:
            with pytest.raises(libsched.ArgumentError, match="expected 8 of float32"):
                sums.offer(numbers)
        for call in (lambda: world.adasum(numbers), lambda: world.collective("adasum", numbers, numbers, count=8),
                     lambda: world.sparse_allreduce(numbers, np.zeros(4, "c8"), 2)):
            with pytest.raises(libsched.ArgumentError, match="complex"):
                call()
        with world.bcast(numbers) as step, world.allgather(flags[:1], np.zeros(2, "?")) as other:
            step.run(LIMIT)
            other.run(LIMIT)

    as_threads(2, body)


def test_counts_are_numbers_of_complex_elements():
    def body(world):
        mine, all = np.full(world.rank + 1, 1j, "c8"), np.zeros(6, "c8")
        with world.allgather(mine, all, counts=[1, 2, 3]) as step:
            step.run(LIMIT)
        assert (all == 1j).all()
        with world.collective("allreduce", all, all, op="sum", count=6) as step:
            step.run(LIMIT)
        assert (all == 3j).all()
        with pytest.raises(libsched.ArgumentError, match="input has 1 elements and output 6: expected . and 6"):
            world.allgather(np.zeros(1, "c8"), all, counts=[2, 2, 2])

    as_threads(3, body)


def test_a_mean_of_complex_numbers():
    def body(world):
        mine = np.array([1 + 4j, 3 - 2j], "c16") * (world.rank + 1)
        with world.allreduce(mine, divisor="ranks") as step:
            step.run(LIMIT)
        assert np.array_equal(mine, np.array([1 + 4j, 3 - 2j]) * 2)

    as_threads(RANKS, body)


def test_schedules_by_hand_combine_bools_as_bools():
    def body(world):
        to = world.builder("or")
        one, other, both = to.input("bool", 4), to.input("bool", 4), to.output("bool", 4)
        to.reduce("sum", one, other, both)
        with pytest.raises(libsched.ArgumentError, match="combine bools with other"):
            to.reduce("sum", one, other, to.scratch("u1", 4))
        out = np.zeros(4, "?")
        with to.commit([np.array([0, 0, 1, 1], "?"), np.array([0, 1, 0, 1], "?")], [out]) as step:
            step.run(LIMIT)
        assert out.view("u1").tolist() == [0, 1, 1, 1]

    as_threads(1, body)


# Each case has the dtype of the odd rank, followed by the dtype of the other ranks. The C interface cannot distinguish
# the two dtypes.
KINDS = [("c16", "f8", 2, "complex as f64", " f64 "), ("c8", "f4", 2, "complex as f32", " f32 "),
         ("u1", "?", 1, " u8 ", "bool as u8")]


@pytest.mark.parametrize("odd, even, factor, odd_text, even_text", KINDS)
@pytest.mark.parametrize("way", ["allreduce", "bcast", "allgather", "collective", "partial"])
@pytest.mark.parametrize("count", [4, 0])
def test_kinds_that_differ_between_ranks_are_refused(way, odd, even, factor, odd_text, even_text, count):
    def body(world):
        is_odd = world.rank == 1
        mine = np.zeros(count if is_odd else factor * count, odd if is_odd else even)
        all_ranks = np.zeros(RANKS * mine.size, mine.dtype)
        make = {"allreduce": lambda: world.allreduce(mine, op="sum" if factor == 2 else "lor"),
                "bcast": lambda: world.bcast(mine),
                "allgather": lambda: world.allgather(mine, all_ranks),
                "collective": lambda: world.collective("bcast", None, mine, count=mine.size),
                "partial": lambda: world.partial(mine.size, mine.dtype, op="lor")}[way]
        with pytest.raises(libsched.Mismatch) as caught:
            make()
        assert odd_text in caught.value.text and even_text in caught.value.text
        with world.allreduce(np.ones(2)) as step:
            step.run(LIMIT)

    if way == "partial" and factor == 2:
        pytest.skip("no word names a complex dtype")
    as_threads(RANKS, body)
