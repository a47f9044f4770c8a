"""The five requests of transactional producers, through kafka-python's protocol layer.

Nothing is decided here: answers come back with their codes, see ``secor.restore.writer``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kafka import errors as kafka_errors

from secor.adapters.kafka.client import Client, to_client
from secor.adapters.kafka.insides import (
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    CoordinatorType,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    ProduceRequest,
)
from secor.core.errors import ConfigurationError
from secor.core.model import TopicPartition
from secor.core.transactions import (
    BrokerCode,
    IdentityAnswer,
    ProduceAnswer,
    ProducerIdentity,
)

_FEATURE = "transaction.version"
_ALL_REPLICAS = -1
_STEP, _MARGIN = 0.01, 1.0
"""Seconds between two looks, and beyond a request's own time that a thread waits for it."""
_OLDEST = (3, 6)


class KafkaTransactions:
    """``TransactionRequests`` over one client; any number of threads and transactional ids.

    Two connections a broker, however many ids: one for coordinators, one for producing.
    ``options`` are kafka-python's; ``timeout`` in seconds bounds the first contact;
    ``version`` forces a version of the transaction protocol (for tests).
    Raises ``Unavailable``, ``AccessDenied``, ``ConfigurationError`` for brokers before 3.6.
    """

    transactional = True

    def __init__(
        self, options: Mapping[str, Any], *, timeout: float = 30.0, version: int | None = None
    ) -> None:
        self._client = Client(options, timeout=timeout, group_id=None)
        self._coordinators: dict[str, int] = {}
        self._lock = threading.Lock()
        try:
            self.version = min(self._offer(timeout), version or 2)
        except BaseException:
            self._client.close()
            raise

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    # ---------------------------------------------------------------- the port

    def find_coordinator(self, transactional_id: str, *, wait: float) -> BrokerCode:
        """Look up the id's coordinator, and remember it."""
        with self._lock:
            self._coordinators.pop(transactional_id, None)
        return BrokerCode.of(
            self._client.call(
                self._find, transactional_id, wait, timeout=wait + _MARGIN, what="FindCoordinator"
            )
        )

    def init_producer_id(
        self, transactional_id: str, timeout: float, *, wait: float
    ) -> IdentityAnswer:
        """Ask the coordinator for an identity."""
        request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=int(timeout * 1000),
            producer_id=-1,
            producer_epoch=-1,
            min_version=2,
            max_version=5,
        )
        answer = self._ask_coordinator(request, transactional_id, wait, "InitProducerId")
        return identity_answer(answer)

    def add_partitions(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        wait: float,
    ) -> BrokerCode:
        """Add partitions to the transaction."""
        names: dict[str, list[int]] = {}
        for topic_partition in partitions:
            names.setdefault(topic_partition.topic, []).append(topic_partition.partition)
        topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[topic(name=n, partitions=p) for n, p in names.items()],
            max_version=3,  # the later ones are for brokers
        )
        answer = self._ask_coordinator(request, transactional_id, wait, "AddPartitionsToTxn")
        if isinstance(answer, BrokerCode):
            return answer
        codes = [
            partition.partition_error_code
            for result in answer.results_by_topic_v3_and_below
            for partition in result.results_by_partition
        ]
        # Where one is refused the others say "not attempted", which tells nothing.
        refused = [code for code in codes if code and code != BrokerCode.OPERATION_NOT_ATTEMPTED]
        return BrokerCode.of(refused[0] if refused else max(codes, default=0))

    def produce(
        self, transactional_id: str, topic_partition: TopicPartition, batch: bytes, *, wait: float
    ) -> Callable[[], ProduceAnswer]:
        """Send one batch; the function waits for the answer."""
        answer = self._client.begin(
            self._produce,
            *(transactional_id, topic_partition, batch, wait),
            what=f"Produce to {topic_partition}",
        )
        return lambda: answer(wait + _MARGIN)

    def end_transaction(
        self, transactional_id: str, identity: ProducerIdentity, *, commit: bool, wait: float
    ) -> IdentityAnswer:
        """Commit or abort."""
        request = EndTxnRequest(
            transactional_id=transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            committed=commit,
            max_version=5 if self.version >= 2 else 4,
        )
        return identity_answer(self._ask_coordinator(request, transactional_id, wait, "EndTxn"))

    def refresh(self, topic: str) -> None:
        """Look up the topic's leaders again, soon."""
        self._client.cluster.add_topic(topic)
        self._client.cluster.request_update()

    # ------------------------------------------------------ on the IO thread

    def ask_any_broker(self, request: Any, *, wait: float, what: str) -> Any:
        """Return the answer of the broker that has least to do; errors as of the other requests."""
        return self._client.call(self._to_any, request, wait, timeout=wait + 1.0, what=what)

    async def _to_any(self, request: Any, wait: float) -> Any:
        node = self._client.manager.least_loaded_node()
        return await self._send(request, node, "coordinator", time.monotonic() + wait)

    def _offer(self, timeout: float) -> int:
        """Return the highest version of transactions that the brokers offer."""
        if not self.transactional:
            return 1
        version = self._client.manager.broker_version
        if version is not None and version < _OLDEST:
            raise ConfigurationError(
                f"the target's brokers are Kafka {'.'.join(map(str, version))}: exactly once needs"
                " 3.6, as older ones can leave transactions hanging: upgrade them, or set"
                ' writing.exactly_once = "disabled" and have some messages twice after a crash'
            )
        what = "the version of transactions"
        return int(self._client.call(self._offered, timeout=timeout, what=what))

    async def _offered(self) -> int:
        """Return the cluster's version of transactions: an operator may have kept it at 1."""
        node = self._client.manager.least_loaded_node()
        answer = await self._client.manager.send(
            ApiVersionsRequest(
                client_software_name="secor", client_software_version="1", min_version=3
            ),
            node_id=node,
        )
        levels = {
            feature.name: feature.max_version_level for feature in answer.finalized_features or []
        }
        return 2 if levels.get(_FEATURE, 0) >= 2 else 1

    def _ask_coordinator(self, request: Any, transactional_id: str, wait: float, what: str) -> Any:
        """Return the answer, or the code with which looking for the coordinator failed."""
        return self._client.call(
            self._to_coordinator,
            request,
            transactional_id,
            wait,
            timeout=wait + _MARGIN,
            what=f"{what} of {transactional_id}",
        )

    async def _to_coordinator(self, request: Any, transactional_id: str, wait: float) -> Any:
        until = time.monotonic() + wait
        if transactional_id not in self._coordinators:
            code = BrokerCode.of(await self._find(transactional_id, wait))
            if code is not BrokerCode.NONE:
                return code
        node = self._coordinators.get(transactional_id)
        return await self._send(request, node, "coordinator", until)

    async def _find(self, transactional_id: str, wait: float) -> int:
        request = FindCoordinatorRequest(
            key_type=CoordinatorType.TRANSACTION,
            key=transactional_id,
            coordinator_keys=[transactional_id],
            min_version=4,
            max_version=5,
        )
        node = self._client.manager.least_loaded_node()
        answer = await self._send(request, node, "coordinator", time.monotonic() + wait)
        (coordinator,) = answer.coordinators
        if coordinator.error_code == 0:
            self._coordinators[transactional_id] = coordinator.node_id
        return int(coordinator.error_code)

    async def _produce(
        self, transactional_id: str, topic_partition: TopicPartition, batch: bytes, wait: float
    ) -> ProduceAnswer:
        until = time.monotonic() + wait
        leader = await self._leader(topic_partition, until)
        topic = ProduceRequest.TopicProduceData
        version = 12 if self.version >= 2 else 11
        request = ProduceRequest(
            transactional_id=transactional_id if self.transactional else None,
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
            min_version=version if self.version >= 2 else 7,
            max_version=version,
        )
        answer = await self._send(request, leader, "produce", until)
        (part,) = answer.responses[0].partition_responses
        details = [error.batch_index_error_message or "" for error in part.record_errors or []]
        message = "; ".join(text for text in [part.error_message or "", *details[:1]] if text)
        return ProduceAnswer(BrokerCode.of(part.error_code), part.base_offset, message)

    async def _leader(self, topic_partition: TopicPartition, until: float) -> int:
        cluster = self._client.cluster
        while True:
            leader = cluster.leader_for_partition(to_client(topic_partition))
            if leader not in (None, -1):
                return int(leader)
            if time.monotonic() >= until:
                raise kafka_errors.LeaderNotAvailableError(str(topic_partition))
            cluster.add_topic(topic_partition.topic)
            cluster.request_update()
            await self._client.net.sleep(_STEP)

    async def _send(self, request: Any, node: Any, purpose: str, until: float) -> Any:
        """Send when the connection takes it; a request that is not answered in time may land."""
        name = self._client.aside(node, purpose)
        while True:
            left = until - time.monotonic()
            if left <= 0:
                raise kafka_errors.KafkaTimeoutError(f"node {node} takes no requests")
            sent = self._client.manager.send(
                request, node_id=name, request_timeout_ms=int(left * 1000)
            )
            full = sent.failed() and isinstance(sent.exception, kafka_errors.NodeNotReadyError)
            if not full:
                return await self._client.manager.wait_for(sent, left * 1000)
            await self._client.net.sleep(_STEP)


def identity_answer(answer: Any) -> IdentityAnswer:
    """Return the identity or the code of an answer, or the code that there is instead of one."""
    if isinstance(answer, BrokerCode):
        return IdentityAnswer(answer)
    code = BrokerCode.of(answer.error_code)
    # Before version 5 EndTxn answers without an identity: the field's default is -1.
    if code is not BrokerCode.NONE or answer.producer_id < 0:
        return IdentityAnswer(code)
    return IdentityAnswer(code, ProducerIdentity(answer.producer_id, answer.producer_epoch))
