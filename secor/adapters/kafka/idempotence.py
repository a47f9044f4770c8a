"""Writing without transactions: the same requests, for brokers or users that have none.

Each writer has an idempotent producer's identity, so that a batch that is sent again is in the
log once.  Nothing fences an earlier writer, and nothing that was written can be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from secor.adapters.kafka.insides import InitProducerIdRequest
from secor.adapters.kafka.producer_requests import ProducerRequests, identity_answer
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
        """What was written is visible already, and stays so."""
        return IdentityAnswer(BrokerCode.NONE)
