from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as of_the_client

from secor.wire.murmur2 import murmur2, murmur2_column, partitions_of


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=20))
@settings(deadline=None, derandomize=True, database=None)
def test_hashes_are_the_clients(keys: list[bytes]) -> None:
    wanted = [of_the_client(key) & 0xFFFFFFFF for key in keys]
    assert murmur2_column(pa.array(keys, pa.binary())).tolist() == wanted
    assert [murmur2(key) for key in keys] == wanted


def test_partitions_are_those_of_javas_producer() -> None:
    keys = [b"21", b"foobar", b"a-little-bit-long-string", b"abc"]
    # Those of the test of Kafka's own Utils.murmur2.
    hashes = [-973932308, -790332482, -985981536, 479470107]
    wanted = [(value & 0x7FFFFFFF) % 10 for value in hashes]
    assert partitions_of(pa.array(keys, pa.binary()), 10).tolist() == wanted
