"""The five requests of transactional producers, through kafka-python's protocol layer.

Nothing is decided here: answers come back with their codes, see ``secor.restore.writer``.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any

from secor.adapters.kafka.insides import (
    AddPartitionsToTxnRequest,
    ApiVersionsRequest,
    CoordinatorType,
    EndTxnRequest,
    FindCoordinatorRequest,
    InitProducerIdRequest,
)
from secor.adapters.kafka.open_transactions import transactions_of_leader
from secor.adapters.kafka.producer_requests import MARGIN, ProducerRequests, identity_answer
from secor.core.errors import ConfigurationError
from secor.core.model import TopicPartition
from secor.core.transactions import BrokerCode, IdentityAnswer, ProduceAnswer, ProducerIdentity


class KafkaIdempotence(ProducerRequests):
    """``TransactionRequests`` where the end of a transaction does nothing.

    Older brokers will do.  A writer's id names it in messages alone; brokers do not hear of it.
    """

    version = 1

    def find_coordinator(self, transactional_id: str, *, wait: float) -> BrokerCode:
        """Any broker gives an identity."""
        return BrokerCode.NONE

    def init_producer_id(
        self, transactional_id: str, timeout: float, *, wait: float
    ) -> IdentityAnswer:
        """Ask a broker for a new identity; earlier ones stay good."""
        request = InitProducerIdRequest(
            transactional_id=None,
            transaction_timeout_ms=int(timeout * 1000),
            producer_id=-1,
            producer_epoch=-1,
            max_version=4,
        )
        return identity_answer(self.ask_any_broker(request, wait=wait, what="InitProducerId"))

    def add_partitions(
        self,
        transactional_id: str,
        identity: ProducerIdentity,
        partitions: Collection[TopicPartition],
        *,
        wait: float,
    ) -> BrokerCode:
        """There is no transaction to add them to."""
        return BrokerCode.NONE

    def produce(
        self, transactional_id: str, topic_partition: TopicPartition, batch: bytes, *, wait: float
    ) -> Callable[[], ProduceAnswer]:
        """Send one batch, which is visible at once; the function waits for the answer."""
        return self.send_batch(
            topic_partition, batch, transactional_id=None, versions=(7, 11), wait=wait
        )

    def end_transaction(
        self, transactional_id: str, identity: ProducerIdentity, *, commit: bool, wait: float
    ) -> IdentityAnswer:
        """Do nothing: what was written is visible already, and stays so."""
        return IdentityAnswer(BrokerCode.NONE)

    def open_transactions(
        self, topic_partitions: Collection[TopicPartition], *, wait: float
    ) -> Mapping[TopicPartition, Mapping[int, int]]:
        """There are none."""
        return {}


_FEATURE = "transaction.version"
_OLDEST = (3, 6)


class KafkaTransactions(ProducerRequests):
    """``TransactionRequests`` over one client, for any number of transactional ids.

    ``version`` forces a version of the transaction protocol (for tests).
    Raises as ``ProducerRequests``, and ``ConfigurationError`` for brokers before 3.6.
    """

    def __init__(
        self, options: Mapping[str, Any], *, timeout: float = 30.0, version: int | None = None
    ) -> None:
        super().__init__(options, timeout=timeout)
        self._coordinators: dict[str, int] = {}
        self._lock = threading.Lock()
        try:
            self.version = min(self._offer(timeout), version or 2)
        except BaseException:
            self.client.close()
            raise

    # ---------------------------------------------------------------- the port

    def find_coordinator(self, transactional_id: str, *, wait: float) -> BrokerCode:
        """Look up the id's coordinator, and remember it."""
        with self._lock:
            # Forgotten before it is looked up: an error must not leave the old one.
            self._coordinators.pop(transactional_id, None)
        return BrokerCode.of(
            self.client.call(
                self._find, transactional_id, wait, timeout=wait + MARGIN, what="FindCoordinator"
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
        # Where one is refused the others say "not attempted", which explains nothing.
        refused = [code for code in codes if code and code != BrokerCode.OPERATION_NOT_ATTEMPTED]
        return BrokerCode.of(refused[0] if refused else max(codes, default=0))

    def produce(
        self, transactional_id: str, topic_partition: TopicPartition, batch: bytes, *, wait: float
    ) -> Callable[[], ProduceAnswer]:
        """Send one batch; the function waits for the answer."""
        # Version 12 is what makes the leader add the partition (KIP-890): an older Produce in such
        # a transaction would need AddPartitionsToTxn.
        versions = (12, 12) if self.version >= 2 else (7, 11)
        return self.send_batch(
            topic_partition, batch, transactional_id=transactional_id, versions=versions, wait=wait
        )

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

    def open_transactions(
        self, topic_partitions: Collection[TopicPartition], *, wait: float
    ) -> Mapping[TopicPartition, Mapping[int, int]]:
        """Ask the leaders of the partitions."""
        return dict(
            self.client.call(
                self._open_transactions,
                topic_partitions,
                wait,
                timeout=wait + MARGIN,
                what="DescribeProducers",
            )
        )

    # ------------------------------------------------------ on the IO thread

    async def _open_transactions(
        self, topic_partitions: Collection[TopicPartition], wait: float
    ) -> dict[TopicPartition, dict[int, int]]:
        until = time.monotonic() + wait
        leaders: dict[int, list[TopicPartition]] = {}
        for topic_partition in topic_partitions:
            leader = await self.leader(topic_partition, until)
            leaders.setdefault(leader, []).append(topic_partition)
        began: dict[TopicPartition, dict[int, int]] = {}
        for leader, led in leaders.items():
            left = max(0.1, until - time.monotonic())
            began |= await transactions_of_leader(self.client, leader, led, left)
        return began

    def _offer(self, timeout: float) -> int:
        """Return the highest version of transactions that the brokers offer."""
        version = self.client.manager.broker_version
        if version is not None and version < _OLDEST:
            raise ConfigurationError(
                f"the target's brokers are Kafka {'.'.join(map(str, version))}: exactly once needs"
                " 3.6, as older ones can leave transactions hanging: upgrade them, or set"
                ' writing.exactly_once = "disabled" and have some messages twice after a crash'
            )
        what = "the version of transactions"
        return int(self.client.call(self._offered, timeout=timeout, what=what))

    async def _offered(self) -> int:
        """Return the cluster's version of transactions: an operator may have kept it at 1."""
        node = self.client.manager.least_loaded_node()
        answer = await self.client.manager.send(
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
        return self.client.call(
            self._to_coordinator,
            request,
            transactional_id,
            wait,
            timeout=wait + MARGIN,
            what=f"{what} of {transactional_id}",
        )

    async def _to_coordinator(self, request: Any, transactional_id: str, wait: float) -> Any:
        until = time.monotonic() + wait
        if transactional_id not in self._coordinators:
            code = BrokerCode.of(await self._find(transactional_id, wait))
            if code is not BrokerCode.NONE:
                return code
        node = self._coordinators.get(transactional_id)
        return await self.send(request, node, "coordinator", until)

    async def _find(self, transactional_id: str, wait: float) -> int:
        request = FindCoordinatorRequest(
            key_type=CoordinatorType.TRANSACTION,
            key=transactional_id,
            coordinator_keys=[transactional_id],
            min_version=4,
            max_version=5,
        )
        node = self.client.manager.least_loaded_node()
        answer = await self.send(request, node, "coordinator", time.monotonic() + wait)
        (coordinator,) = answer.coordinators
        if coordinator.error_code == 0:
            self._coordinators[transactional_id] = coordinator.node_id
        return int(coordinator.error_code)
