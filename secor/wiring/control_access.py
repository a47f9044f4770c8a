"""Whether this user may do what the control topic and the election of a table group need."""

from __future__ import annotations

from contextlib import closing

from secor.adapters.kafka.group_admin import GroupAdmin
from secor.adapters.kafka.topic_admin import TopicAdmin, TopicSettings
from secor.config.model import Config
from secor.core.errors import AccessDenied, ConfigurationError
from secor.wiring.clients import kafka_options

_RIGHTS = ("READ", "WRITE")
_ONE_PARTITION = TopicSettings(partitions=1, settings={})


def check_control_topic(config: Config, topic: str) -> str:
    """Return what the brokers say of the control topic.

    Raises ``AccessDenied``, ``ConfigurationError``, ``Unavailable``.
    """
    needed = f"allow this user Read and Write on the topic {topic}"
    with closing(TopicAdmin(kafka_options(config))) as admin:
        try:
            described = admin.describe([topic]).get(topic)
        except AccessDenied as error:
            raise AccessDenied(f"{needed}, and Create unless it exists") from error
        if described is None:
            refusal = admin.refusal(topic, _ONE_PARTITION)
            if refusal is not None:
                raise ConfigurationError(f"the topic {topic} does not exist: {refusal}")
            return f"{topic} does not exist: the first process makes it"
    # Brokers before 2.3 tell no rights.
    if described.rights and not described.rights.issuperset(_RIGHTS):
        raise AccessDenied(needed)
    return f"{topic} may be read and written"


def check_election(config: Config, members: str) -> str:
    """See that processes that coordinate alone may elect one.

    ``members`` is their consumer group.  Raises ``AccessDenied``, ``Unavailable``.
    """
    with closing(GroupAdmin(kafka_options(config))) as groups:
        if not groups.may_join(members):
            raise AccessDenied(
                f"allow this user Read on the group {members}: without it several secor tables"
                " run elect nobody, and each coordinates"
            )
    return f"the group {members} may be joined"
