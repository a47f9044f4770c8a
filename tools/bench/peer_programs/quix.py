"""Quix Streams' own sink of gzip JSON lines in S3.  Arguments: the settings of ``peers``."""

import json
import re
import sys
from typing import Any


def main(settings: dict[str, Any]) -> None:
    """Store so many messages of a topic, then end; end, too, where nothing comes any more."""
    from quixstreams import Application
    from quixstreams.sinks.community.file import FileSink
    from quixstreams.sinks.community.file.destinations import S3Destination
    from quixstreams.sinks.community.file.formats import JSONFormat

    kafka = settings["kafka"]
    application = Application(
        broker_address=kafka["bootstrap.servers"],
        consumer_group=kafka["group.id"],
        auto_offset_reset="earliest",
        auto_create_topics=False,
        commit_interval=2.0,
        state_dir=settings["directory"],
        loglevel="WARNING",
    )
    sink = FileSink(
        directory=re.sub(r"\W", "_", settings["prefix"]),  # it takes no other characters
        format=JSONFormat(compress=True),
        destination=S3Destination(bucket=settings["bucket"], **settings["s3"]),
    )
    topic = application.topic(settings["topic"], value_deserializer="json")
    application.dataframe(topic).sink(sink)
    if settings["messages"]:
        application.run(count=settings["messages"], timeout=30.0, collect=False)
    else:
        application.run(timeout=settings["idle"])


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
