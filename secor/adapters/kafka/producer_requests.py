"""The requests that producers have in common, with and without transactions.

Nothing is decided here: answers come back with their codes, see ``secor.restore.writer``.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping
from typing import Any

from kafka import errors as kafka_errors

from secor.adapters.kafka.client import Client, to_client
from secor.adapters.kafka.insides import ProduceRequest
from secor.core.model import TopicPartition
from secor.core.transactions import BrokerCode, IdentityAnswer, ProduceAnswer, ProducerIdentity

MARGIN = 1.0
"""Seconds beyond a request's own time that a thread waits for it."""
_ALL_REPLICAS = -1
_STEP = 0.01
"""Seconds between two looks."""
_AT_ONCE = 2
"""Looks for a leader without a pause: an answer that was on its way may be about other topics."""


class ProducerRequests:
    """One client; any number of threads.

    Two connections a broker: one for coordinators, one for producing.
    ``options`` are kafka-python's; ``timeout`` in seconds bounds the first contact.
    Raises ``Unavailable``, ``AccessDenied``.
    """

    def __init__(self, options: Mapping[str, Any], *, timeout: float = 30.0) -> None:
        self.client = Client(options, timeout=timeout, group_id=None)

    def close(self) -> None:
        """End the connections."""
        self.client.close()

    def refresh(self, topic: str) -> None:
        """Look up the topic's leaders again, soon."""
        self.client.cluster.add_topic(topic)
        self.client.cluster.request_update()

    def send_batch(
        self,
        topic_partition: TopicPartition,
        batch: bytes,
        *,
        transactional_id: str | None,
        versions: tuple[int, int],
        wait: float,
    ) -> Callable[[], ProduceAnswer]:
        """Send a batch to the partition's leader; the function waits for the answer.

        ``versions`` are the lowest and the highest of the Produce request.
        """
        answer = self.client.begin(
            self._produce,
            *(transactional_id, topic_partition, batch, versions, wait),
            what=f"Produce to {topic_partition}",
        )
        return lambda: answer(wait + MARGIN)

    def ask_any_broker(self, request: Any, *, wait: float, what: str) -> Any:
        """Return the answer of the broker that has least to do; errors as of the other requests."""
        return self.client.call(self._to_any, request, wait, timeout=wait + MARGIN, what=what)

    # ------------------------------------------------------ on the IO thread

    async def _to_any(self, request: Any, wait: float) -> Any:
        node = self.client.manager.least_loaded_node()
        return await self.send(request, node, "coordinator", time.monotonic() + wait)

    async def send(self, request: Any, node: Any, purpose: str, until: float) -> Any:
        """Send when the connection takes it; a request that is not answered in time may land."""
        name = self.client.aside(node, purpose)
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise kafka_errors.KafkaTimeoutError(f"node {node} takes no requests")
            sent = self.client.manager.send(
                request, node_id=name, request_timeout_ms=int(left * 1000)
            )
            full = sent.failed() and isinstance(sent.exception, kafka_errors.NodeNotReadyError)
            if not full:
                return await self.client.manager.wait_for(sent, left * 1000)
            await self.client.net.sleep(_STEP)

    async def _produce(
        self,
        transactional_id: str | None,
        topic_partition: TopicPartition,
        batch: bytes,
        versions: tuple[int, int],
        wait: float,
    ) -> ProduceAnswer:
        until = time.monotonic() + wait
        leader = await self.leader(topic_partition, until)
        topic = ProduceRequest.TopicProduceData
        request = ProduceRequest(
            transactional_id=transactional_id,
            # With less, a transaction could be committed whose records only a dead leader had.
            acks=_ALL_REPLICAS,
            timeout_ms=int(wait * 1000),
            topic_data=[
                topic(
                    name=topic_partition.topic,
                    partition_data=[
                        topic.PartitionProduceData(index=topic_partition.partition, records=batch)
                    ],
                )
            ],
            min_version=versions[0],
            max_version=versions[1],
        )
        answer = await self.send(request, leader, "produce", until)
        (part,) = answer.responses[0].partition_responses
        details = [error.batch_index_error_message or "" for error in part.record_errors or []]
        message = "; ".join(text for text in [part.error_message or "", *details[:1]] if text)
        return ProduceAnswer(BrokerCode.of(part.error_code), part.base_offset, message)

    async def leader(self, topic_partition: TopicPartition, until: float) -> int:
        """Return the partition's leader, looked up until then; on the IO thread."""
        cluster = self.client.cluster
        for attempt in itertools.count():
            leader = cluster.leader_for_partition(to_client(topic_partition))
            if leader not in (None, -1):
                return int(leader)
            if time.monotonic() >= until:
                raise kafka_errors.LeaderNotAvailableError(str(topic_partition))
            if attempt < _AT_ONCE:
                await self.client.look_up([topic_partition.topic])
                continue
            cluster.add_topic(topic_partition.topic)
            cluster.request_update()
            await self.client.net.sleep(_STEP)
        raise AssertionError("counting ended")


def identity_answer(answer: Any) -> IdentityAnswer:
    """Return the identity or the code of an answer, or the code that there is instead of one."""
    if isinstance(answer, BrokerCode):
        return IdentityAnswer(answer)
    code = BrokerCode.of(answer.error_code)
    # Before version 5 EndTxn answers without an identity: the field's default is -1.
    if code is not BrokerCode.NONE or answer.producer_id < 0:
        return IdentityAnswer(code)
    return IdentityAnswer(code, ProducerIdentity(answer.producer_id, answer.producer_epoch))
