"""Algorithms of the application: loaded texts, and builders without a world."""

import numpy as np
import pytest

import libsched
from conftest import LIMIT, as_threads

LEFT = """libsched algorithm 1
name "by_pairs"
collective allreduce
needs P == 2
in_place
send in to 1 - r
out = op in recv from 1 - r
"""


def shift(rank, ranks):
    """Returns the text of a schedule in which each rank sends its vector to the next rank."""
    to = libsched.Builder(rank=rank, ranks=ranks, name="shift")
    mine, left = to.input("f32", 4), to.output("f32", 4)
    to.send((rank + 1) % ranks, 0, mine[:])
    to.recv((rank - 1) % ranks, 0, left[:])
    return to.text()


def test_a_loaded_algorithm_runs_by_name():
    libsched.load_algorithm(LEFT)
    libsched.load_algorithm(LEFT)

    def run(world):
        x = np.full(3, world.rank + 1, "f8")
        with world.allreduce(x, algorithm="by_pairs") as step:
            step.run(timeout=20)
        assert (x == 3).all()

    as_threads(2, run)


def test_a_bad_text_has_a_place():
    with pytest.raises(libsched.ArgumentError, match="line 1, column 1"):
        libsched.load_algorithm("nothing")
    with pytest.raises(libsched.StateError, match="another algorithm allreduce/by_pairs"):
        libsched.load_algorithm(LEFT + "# more\n")


def test_texts_of_builders_are_proved_and_simulated():
    text = "".join(shift(rank, 3) for rank in range(3))
    assert libsched.verify(text).holds
    assert not libsched.verify(text.replace("to 1 tag 0", "to 2 tag 0", 1)).holds
    assert libsched.simulate(text).counted["messages"] == 3


def cycle(world):
    """Commits a schedule that deadlocks: each rank waits for a message before it sends its own message."""
    to = world.builder("cycle")
    left = to.output("f32", 4)
    arrived = to.recv((world.rank - 1) % world.size, 0, left)
    to.send((world.rank + 1) % world.size, 0, left, after=[arrived])
    return to.commit(outputs=[np.zeros(4, "f4")])


@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_a_deadlock_is_refused_on_all_ranks_if_one_rank_asks_for_proofs(ranks):
    def body(world):
        cycle(world).close()
        world.set_verify(world.rank == 1)
        with pytest.raises(libsched.Error, match='the verification of "cycle" failed: progress: ') as caught:
            cycle(world)
        assert caught.value.status == "LSCHED_ERR_CYCLE"
        mine = np.ones(4)
        with world.allreduce(mine) as step:
            step.run(LIMIT)
        assert (mine == ranks).all()

    as_threads(ranks, body)


def test_regions_are_parts_whole_buffers_or_plain_tuples():
    texts = set()
    for whole in (lambda b: b, lambda b: b[:], lambda b: (b.number, 0, b.count)):
        to = libsched.Builder(rank=0, ranks=2)
        mine, left = to.input("f32", 3), to.output("f32", 3)
        to.copy(whole(mine), whole(left))
        to.reduce("sum", whole(mine), whole(left), whole(left))
        to.send(1, 0, whole(mine))
        to.recv(1, 0, whole(left))
        texts.add(to.text())
    assert len(texts) == 1
    with pytest.raises(libsched.ArgumentError, match="regions of 3, 2, 3 elements"):
        to.reduce("sum", mine, (1, 0, 2), left)
    with pytest.raises(libsched.ArgumentError, match="give a buffer"):
        to.copy((0, 1), left)
    with pytest.raises(libsched.ArgumentError, match="nonsense"):
        to.reduce("nonsense", mine, (1, 0, 2), left)


def test_a_builder_without_a_world_is_not_committed():
    with pytest.raises(libsched.ArgumentError, match="rank is 3 and ranks is 3: give a world"):
        libsched.Builder(rank=3, ranks=3)
    with pytest.raises(libsched.ArgumentError, match="regions of 3, 2 elements"):
        to = libsched.Builder(rank=0, ranks=1)
        to.copy(to.input("f32", 4)[0:3], to.output("f32", 4)[2:])
    with pytest.raises(libsched.ArgumentError, match="without a world"):
        libsched.Builder(rank=0, ranks=1).commit()
