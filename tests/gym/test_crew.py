"""Threads that share out work: all is done, in the order of what was given, and what raises stops nothing else."""

from __future__ import annotations

import threading
import time

import pytest

from rlx.gym.crew import Crew


def work(number: int, word: str) -> str:
    time.sleep(0.001 * (5 - number))
    if word == "raise":
        raise RuntimeError(str(number))
    return f"{number} {word}"


def test_what_comes_of_a_batch_is_in_the_order_of_what_was_given() -> None:
    crew = Crew(3)
    assert crew.begin(work, [(number, "done") for number in range(5)]).wait() == [f"{i} done" for i in range(5)]
    assert crew.begin(work, []).wait() == []
    crew.dismiss()


def test_the_first_that_raises_raises_where_it_is_waited_for_and_the_crew_goes_on() -> None:
    crew = Crew(2)
    batch = crew.begin(work, [(0, "done"), (1, "raise"), (2, "raise"), (3, "done")])
    with pytest.raises(RuntimeError, match=r"^1$"):
        batch.wait()
    assert crew.begin(work, [(4, "again")]).wait() == ["4 again"]
    crew.dismiss()


def test_threads_end_with_whoever_had_them() -> None:
    crew = Crew(2)
    threads = crew.threads
    assert all(thread in threading.enumerate() for thread in threads)
    del crew
    for thread in threads:
        thread.join(timeout=60)
    assert not [thread for thread in threads if thread.is_alive()]
