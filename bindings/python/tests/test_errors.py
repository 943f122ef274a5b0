"""Bad input is refused with words that help, and nothing has changed."""

import pickle

import numpy as np
import pytest

import libsched
from conftest import LIMIT, as_threads


def test_what_is_no_array():
    def body(world):
        cases = [
            (lambda: world.allreduce([1, 2]), "input: this is no array"),
            (lambda: world.allreduce(np.zeros(4)[::2]), "contiguous"),
            (lambda: world.allreduce(np.zeros(4, "i2")), "dtype"),
            (lambda: world.allreduce(np.zeros(4), np.zeros(3)), "4 elements and output 3"),
            (lambda: world.allreduce(np.zeros(4, "f4"), np.zeros(4)), "different dtypes: float32 and float64"),
            (lambda: world.allreduce(b"abcd"), "read-only"),
            (lambda: world.allreduce(np.zeros(4), op="plus"), "choose one of 'sum'"),
            (lambda: world.allreduce(np.zeros(4), op="band"), "f64"),
            (lambda: world.allreduce(np.zeros(4), algorithm="fast"), "fast"),
            (lambda: world.allreduce(np.zeros(4), divisor="four"), "divisor"),
            (lambda: world.reduce_scatter(np.zeros(4), counts=[1, 2]), "2 entries: 1"),
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
