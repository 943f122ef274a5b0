"""A rank with wrong arguments still takes part in a collective call.

Every rank raises, and the next call is paired as usual.
"""

import numpy as np
import pytest

import libsched
from conftest import LIMIT, as_threads

RANKS = 3
COUNTS = [1, 2, 3]


def some(count, dtype="f8"):
    return np.zeros(count, dtype)


def read_only(count, dtype="f8"):
    array = some(count, dtype)
    array.flags.writeable = False
    return array


def committed(world, input, output, **options):
    to = world.builder("copies")
    to.copy(to.input("f8", 4)[:], to.output("f8", 4)[:])
    return to.commit([input], [output], **options)


def text_of_copies(world):
    to = libsched.Builder(name="copies", rank=world.rank, ranks=world.size)
    to.copy(to.input("f8", 4)[:], to.output("f8", 4)[:])
    return to.text()


def loaded(world, input, output, text=None):
    """Loads a program that is the same on each rank and sends nothing."""
    text = text_of_copies(world) if text is None else text
    return world.load(text, [input], [output])


# The values are a function that makes a valid call, the names and lengths of the arrays that cases replace, and the
# options that the call refuses. `at` is the rank whose arguments are refused. `at` is also the root, because only the
# root examines the arrays.
CALLS = {
    "barrier": (lambda w, at, **k: w.barrier(**k), {}, [{"timeout": 3}]),
    "allreduce": (lambda w, at, i=None, o=None, **k: w.allreduce(i, o, **k), {"i": 4, "o": 4},
                  [{"op": "plus"}, {"op": 2}, {"op": ["sum"]}, {"op": "band"}, {"algorithm": 7}, {"algorithm": "fast"},
                   {"divisor": "four"}, {"dtype": "f4"}, {"dtype": object()}, {"depth": "x"}, {"depth": -1},
                   {"depth": 2**40}, {"colour": 1}]),
    "reduce": (lambda w, at, i=None, o=None, **k: w.reduce(i, o, **{"root": at, **k}), {"i": 4, "o": 4},
               [{"root": "x"}, {"root": 99}, {"root": -1}, {"root": 2**40}, {"op": "plus"}]),
    "scan": (lambda w, at, i=None, o=None, **k: w.scan(i, o, **k), {"i": 4, "o": 4}, [{"op": None}, {"op": "plus"}]),
    "reduce_scatter": (lambda w, at, i=None, o=None, **k: w.reduce_scatter(i, o, **k), {"i": 6, "o": 2},
                       [{"counts": [1, 2]}, {"counts": "abc"}, {"counts": 3}, {"counts": [1, -1, 3]}, {"op": "plus"}]),
    "bcast": (lambda w, at, o=None, **k: w.bcast(o, **{"root": (at + 1) % RANKS, **k}), {"o": 4},
              [{"root": "x"}, {"root": 99}, {"dtype": "f4"}]),
    "gather": (lambda w, at, i=None, o=None, **k: w.gather(i, o, **{"root": at, **k}), {"i": 2, "o": 6},
               [{"root": "x"}, {"root": 99}, {"counts": [1, 2]}, {"counts": COUNTS}]),
    "scatter": (lambda w, at, i=None, o=None, **k: w.scatter(i, o, **{"root": at, **k}), {"i": 6, "o": 2},
                [{"root": "x"}, {"root": 99}, {"counts": [1, 2]}, {"counts": COUNTS}]),
    "allgather": (lambda w, at, i=None, o=None, **k: w.allgather(i, o, **k), {"i": 2, "o": 6},
                  [{"counts": [1, 2]}, {"counts": ["x"] * 3}, {"algorithm": "fast"}]),
    "alltoall": (lambda w, at, i=None, o=None, **k: w.alltoall(i, o, **k), {"i": 6, "o": 6},
                 [{"counts": [1, 2]}, {"counts": [2, 2, 2]}, {"recv_counts": 1, "counts": [2, 2, 2]}]),
    "neighbor_exchange": (lambda w, at, i=None, o=None, **k: w.neighbor_exchange(i, o, **{
        "destinations": [(w.rank + 1) % RANKS], "counts": [4], "sources": [(w.rank - 1) % RANKS], "recv_counts": [4],
        **k}), {"i": 4, "o": 4}, [{"counts": [1, 2]}, {"destinations": ["x"]}, {"sources": [99]}, {"counts": None}]),
    "adasum": (lambda w, at, i=None, o=None, **k: w.adasum(i, o, **k), {"i": 4, "o": 4},
               [{"tensors": 3}, {"tensors": [(0, 9)]}, {"tensors": [(0, "x")]}, {"tensors": [(0,), (4,)]}]),
    "collective": (lambda w, at, i=None, o=None, name="allreduce", **k: w.collective(name, i, o, **{
        "op": "sum", "count": 4, **k}), {"i": 4, "o": 4},
        [{"name": "all"}, {"name": 3}, {"colour": 3}, {"count": "x"}, {"count": -1}, {"segment_bytes": "x"}]),
    "load": (lambda w, at, i=None, o=None, **k: loaded(w, i, o, **k), {"i": 4, "o": 4},
             [{"text": 3}, {"text": "nonsense"}]),
    "mailbox": (lambda w, at, **k: w.mailbox(**k), {}, [{"size": 3}]),
    "split": (lambda w, at, **k: w.split(**{"color": 0, **k}), {},
              [{"color": "x"}, {"color": 2**40}, {"key": None}, {"shade": 1}]),
    "partial": (lambda w, at, count=4, **k: w.partial(count, **k), {},
                [{"count": "x"}, {"count": -1}, {"dtype": "f3"}, {"op": "plus"}, {"activation": "now"},
                 {"activation": 3}, {"lag": "long"}, {"history": "x"}, {"divisor": 3}, {"buckets": [1, 1]},
                 {"buckets": 3}, {"sparse": "x"}, {"sparse": {"l": 3}}, {"seed": -1}, {"colour": 1}]),
    "sparse_allreduce": (lambda w, at, i=None, o=None, k=2, **more: w.sparse_allreduce(i, o, k, **more),
                         {"i": 8, "o": 8}, [{"k": "x"}, {"k": 0}, {"k": -1}, {"algorithm": "fast"}, {"nans": "x"},
                                            {"scale": "x"}, {"image": b"x"}, {"image": "x"}, {"period": -1}]),
    "coo_allreduce": (lambda w, at, i=None, o=None, count=8, **k: w.coo_allreduce(
        some(4, "i8"), i, some(1, "i8"), some(8, "i8"), o, some(1, "i8"), count, **k), {"i": 4, "o": 8},
        [{"count": "x"}, {"count": -1}, {"dense": [1]}, {"dense": np.zeros(7)}, {"regions": "x"}, {"colour": 1}]),
    "Builder.commit": (lambda w, at, i=None, o=None, **k: committed(w, i, o, **k), {"i": 4, "o": 4}, [{"colour": 1}]),
}

def coo(world, **given):
    """Creates an allreduce of sparse vectors of length 8."""
    arrays = {"indices": np.zeros(4, "u8"), "values": np.zeros(4), "item_count": np.zeros(1, "u8"),
              "out_indices": np.zeros(8, "u8"), "out_values": np.zeros(8), "out_count": np.zeros(1, "u8"), **given}
    return world.coo_allreduce(**arrays, count=8)


# Local calls, and collective calls that a rank may repeat alone after a refusal.
LOCAL = {
    "World": {"describe", "diagnose", "stats", "node_of", "rank_in", "progress", "trace_start", "trace_write",
              "attach_cuda", "empty", "builder", "close", "lost", "set_verify", "grow", "grow_end", "grow_text"},
    "Builder": {"input", "output", "scratch", "nop", "send", "recv", "reduce", "copy", "dep", "need", "text"},
}
REPEATED = {"World": {"split_ranks", "shrink", "grow_begin"}}


def bad_arrays(which, count):
    """Returns arrays that Python refuses."""
    wrong = [[0.0] * 4, object(), np.zeros(2 * count)[::2], some(count, "i2"), some(count, "U1"), some(count + 1),
             some(count, "f4")]
    return wrong + ([read_only(count)] if which == "o" else [])


def cases_of(name):
    """Yields, for each case, a function with a valid call, a function with a refused call, and a label."""
    call, arrays, options = CALLS[name]
    well = {which: (lambda count=count: some(count)) for which, count in arrays.items()}

    def good(world, root):
        return call(world, root, **{which: make() for which, make in well.items()})

    for which, count in arrays.items():
        for array in bad_arrays(which, count):
            def bad(world, root, which=which, array=array):
                return call(world, root, **{**{each: make() for each, make in well.items()}, which: array})
            yield good, bad, f"{which}={array!r}"
    for wrong in options:
        def bad(world, root, wrong=wrong):
            return call(world, root, **{each: make() for each, make in well.items()}, **wrong)
        yield good, bad, repr(wrong)


def expect_right_sum(world, number):
    mine = np.full(4, world.rank + number, "f8")
    with world.allreduce(mine) as step:
        step.run(LIMIT)
    assert np.array_equal(mine, np.full(4, sum(range(RANKS)) + RANKS * number)), mine


@pytest.mark.parametrize("name", CALLS)
def test_all_ranks_hear_of_a_refusal_and_the_next_call_is_right(name):
    def body(world):
        for number, (good, bad, label) in enumerate(cases_of(name)):
            root = number % RANKS
            is_refused = world.rank == root
            try:
                made = (bad if is_refused else good)(world, root)
            except (libsched.Error, TypeError, ValueError, OverflowError, RuntimeError) as error:
                told = error.with_traceback(None)  # a traceback refers to builders
            else:
                raise AssertionError(f"{name}({label}) of rank {root} was accepted: {made}")
            if not is_refused:
                assert isinstance(told, libsched.Error) and told.status != "LSCHED_ERR_TIMEOUT", (label, told)
                assert told.rank == root or isinstance(told, libsched.Mismatch), (label, told)
            expect_right_sum(world, number)
            with_no_error = good(world, root)
            with_no_error.close()

    as_threads(RANKS, body)


def test_the_reason_reaches_the_other_ranks():
    def body(world):
        with pytest.raises(libsched.ArgumentError, match="read-only") as caught:
            world.allreduce(read_only(4) if world.rank == 1 else some(4))
        assert caught.value.rank == (None if world.rank == 1 else 1)
        with pytest.raises((TypeError, libsched.ArgumentError), match="colour"):
            world.allreduce(some(4), **({"colour": 1} if world.rank == 2 else {}))
        expect_right_sum(world, 1)

    as_threads(RANKS, body)


def refused_text(world, body):
    """Returns the error text of this rank if rank 1 calls `body` and the other ranks call allreduce."""
    with pytest.raises(libsched.ArgumentError) as caught:
        body() if world.rank == 1 else world.allreduce(some(4))
    return caught.value.text


@pytest.mark.parametrize("text, body", [
    ("root is 0.5: give a whole number from 0 to 2", lambda w: w.bcast(some(4), root=0.5)),
    ("root is 0.5: give a whole number from 0 to 2", lambda w: w.reduce(some(4), root=0.5)),
    ("root is None: give a whole number from 0 to 2", lambda w: w.gather(some(4), some(12), root=None)),
    ("root is 3: give a whole number from 0 to 2", lambda w: w.scatter(some(12), some(4), root=3)),
    ("root is -1: give a whole number from 0 to 2", lambda w: w.collective("bcast", None, some(4), count=4, root=-1)),
    ("depth is 1.0: give a whole number from 0 to", lambda w: w.allreduce(some(4), depth=1.0)),
    ("algorithm is 7: give a str, or None", lambda w: w.allreduce(some(4), algorithm=7)),
    ("an entry of counts is 1.5: give a whole number", lambda w: w.allgather(some(4), some(12), counts=[1.5, 2, 3])),
    ("input must be an array, not None", lambda w: w.allreduce(None)),
    ("input must be an array, not None", lambda w: w.alltoall(None)),
    ("input must be an array, not None", lambda w: w.reduce_scatter(None)),
    ("output must be an array, not None", lambda w: w.allgather(some(4), None)),
    ("buffer must be an array, not None", lambda w: w.bcast(None)),
    ("dense has 7 elements: expected 8", lambda w: coo(w, dense=np.zeros(7))),
    ("out_count has 0 elements: expected 1", lambda w: coo(w, out_count=np.zeros(0, "u8"))),
    ("item_count has 0 elements: expected 1", lambda w: coo(w, item_count=np.zeros(0, "u8"))),
    ("out_count is a list, to which the library cannot write", lambda w: coo(w, out_count=[0])),
    ("an entry of tensors is (4,): give a pair", lambda w: w.partial(4, op=None, collective="adasum", tensors=[(4,)])),
    ("color is 0.5: give a whole number", lambda w: w.split(0.5)),
    ("count is 4.0: give a whole number", lambda w: w.partial(4.0)),
    ("seed is -1: give a whole number", lambda w: w.partial(4, seed=-1)),
    ("k is '2': give a whole number", lambda w: w.sparse_allreduce(some(4), some(4), "2")),
    ("scale is 'x': give a number", lambda w: w.sparse_allreduce(some(4), some(4), 2, scale="x")),
    ("input: the dtype '>f8' is not in the byte order of this machine: give array.astype('<f8')",
     lambda w: w.allreduce(some(4, ">f8"))),
    ("is structured: give each field as a separate array", lambda w: w.allreduce(some(4, [("a", "f8")]))),
    ("input: the dtype <U1 is not supported: use one of int8", lambda w: w.allreduce(some(4, "U1"))),
])
def test_the_reason_is_a_plain_sentence(text, body):
    def of_rank(world):
        told = refused_text(world, lambda: body(world))
        expect_right_sum(world, 1)
        return told

    for told in as_threads(RANKS, of_rank):
        assert text in told


@pytest.mark.parametrize("root", [np.int64(1), np.uint8(1), np.argmax([0, 1, 0]), True])
def test_a_root_is_anything_that_python_takes_for_an_index(root):
    def body(world):
        array, blocks, mine = np.full(2, float(world.rank)), np.zeros(6), np.zeros(2)
        with world.bcast(array, root) as step:
            step.run(LIMIT)
        assert (array == 1).all()
        with world.reduce(array, root=root) as step:
            step.run(LIMIT)
        assert (array == (3 if world.rank == 1 else 1)).all()
        with world.gather(np.full(2, float(world.rank)), blocks, root) as step:
            step.run(LIMIT)
        assert list(blocks) == ([0, 0, 1, 1, 2, 2] if world.rank == 1 else [0] * 6)
        with world.scatter(blocks, mine, root) as step:
            step.run(LIMIT)
        assert (mine == world.rank).all()

    as_threads(RANKS, body)


def test_a_refusal_before_creates_that_do_not_wait():
    def body(world):
        world.nonblocking = True
        if world.rank == 0:
            with pytest.raises(libsched.ArgumentError, match="read-only"):
                world.allreduce(read_only(4))
        else:
            refused = world.allreduce(some(4))
            with pytest.raises(libsched.ArgumentError, match="rank 0.*read-only"):
                refused.run(LIMIT)
            refused.close()
        expect_right_sum(world, 1)

    as_threads(RANKS, body)


def test_a_world_that_was_closed_refuses_alone():
    worlds = libsched.open_threads(2, region_bytes=1 << 24)
    for world in worlds:
        world.close()
        with pytest.raises(libsched.StateError):
            world.allreduce(some(4))


def test_every_call_has_a_row():
    for kind, prefix in ((libsched.World, ""), (libsched.Builder, "Builder.")):
        public = {name for name in vars(kind) if not name.startswith("_") and callable(getattr(kind, name))}
        collective = {name for name in public if getattr(getattr(kind, name), "_is_collective", False)}
        assert {prefix + name for name in collective} <= set(CALLS)
        known = collective | LOCAL[kind.__name__] | REPEATED.get(kind.__name__, set())
        assert public - known == set(), "say in this test whether these calls are collective"
    assert len(CALLS) == sum(getattr(getattr(kind, name), "_is_collective", False)
                             for kind in (libsched.World, libsched.Builder) for name in vars(kind)
                             if not name.startswith("_"))
