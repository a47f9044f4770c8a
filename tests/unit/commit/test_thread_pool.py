"""Threads off the loop."""

import threading
from collections.abc import Iterator
from typing import cast

import pytest

from secor.batch.sealed import BatchFile
from secor.commit.thread_pool import ThreadPool


@pytest.fixture
def pool() -> Iterator[ThreadPool]:
    pool = ThreadPool(2)
    yield pool
    pool.close()


def wait_for(pool: ThreadPool, count: int) -> list[object]:
    results: list[object] = []
    while len(results) < count:
        results.extend(pool.finished())
    return results


def test_results_come_back_to_the_loop(pool: ThreadPool) -> None:
    for number in range(5):
        pool.submit(lambda number=number: number)  # type: ignore[misc]
    assert sorted(cast("list[int]", wait_for(pool, 5))) == [0, 1, 2, 3, 4]


def test_an_error_that_a_task_let_escape_is_raised_in_the_loop(pool: ThreadPool) -> None:
    def broken() -> None:
        raise ZeroDivisionError

    pool.submit(broken)
    with pytest.raises(ZeroDivisionError):
        wait_for(pool, 1)


def test_a_single_file_is_put_by_the_thread_that_commits_it(pool: ThreadPool) -> None:
    put: list[threading.Thread] = []
    pool.parallel(lambda _: put.append(threading.current_thread()), cast("list[BatchFile]", [1]))
    assert put == [threading.current_thread()]


def test_all_puts_have_ended_when_the_first_error_is_raised(pool: ThreadPool) -> None:
    go = threading.Event()
    ended: list[int] = []

    def put(file: BatchFile) -> None:
        number = cast("int", file)
        if number == 0:
            go.set()
            raise ValueError("the first")
        go.wait(30)
        ended.append(number)

    files = cast("list[BatchFile]", [0, 1, 2])
    with pytest.raises(ValueError, match="the first"):
        pool.parallel(put, files)
    assert sorted(ended) == [1, 2]


def test_of_two_batches_none_waits_for_all_files_of_the_other(pool: ThreadPool) -> None:
    put: list[str] = []
    turns, begun, ended = threading.Semaphore(0), threading.Event(), threading.Event()

    def slow(file: BatchFile) -> None:
        begun.set()
        turns.acquire(timeout=30)
        put.append(str(file))

    def quick(file: BatchFile) -> None:
        put.append(str(file))

    many = cast("list[BatchFile]", [f"many {number}" for number in range(50)])
    one = cast("list[BatchFile]", ["one"])
    pool.submit(lambda: pool.parallel(slow, many))
    assert begun.wait(30)

    def other() -> None:
        pool.parallel(quick, one)
        ended.set()

    pool.submit(other)
    for _ in range(5):
        turns.release()
    assert ended.wait(30)
    assert put.index("one") <= 5
    for _ in many:
        turns.release()
    wait_for(pool, 2)
    assert len(put) == 51
