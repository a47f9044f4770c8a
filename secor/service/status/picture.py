"""``/status.json``: what the board and the health say, as plain values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from typing import Any

from secor.consume.partition_status import ReadingState, Status
from secor.core.model import OpenTransaction
from secor.core.text import iso_time
from secor.service.monitoring.health import Health
from secor.service.monitoring.lag import (
    lag_offsets,
    lag_seconds,
    waiting_seconds,
    withheld_seconds,
)
from secor.service.monitoring.servers import ServerState
from secor.service.startup import Hindrance
from secor.service.status.board import Board, Mishap
from secor.service.status.remedies import remedy
from secor.service.status.table_picture import age, coordination_picture, tables_picture

_OF_ONE_PARTITION = re.compile(r"\S*[/\d]\S*")
"""Words of a message that differ between topic partitions: keys, addresses, offsets, ids."""

Picture = Mapping[str, Any]


def error_pattern(kind: str, message: str, topic: str) -> tuple[str, str]:
    """Return what an error has in common with the same error of other topic partitions."""
    return kind, _OF_ONE_PARTITION.sub("…", message.replace(topic, "…"))


def lasting_errors(partitions: Sequence[Picture]) -> list[dict[str, Any]]:
    """Return the last errors of topic partitions that are not over; those of most first.

    ``message`` is the newest, ``at`` its time; ``since`` is of the one that began first.
    """
    alike: dict[tuple[str, str], list[Picture]] = {}
    for partition in partitions:
        error = partition["last_error"]
        if error is not None and not error["over"]:
            key = error_pattern(error["kind"], error["message"], partition["topic"])
            alike.setdefault(key, []).append(partition)
    return sorted(
        map(_together, alike.values()), key=lambda lasting_error: -len(lasting_error["partitions"])
    )


def _together(partitions: Sequence[Picture]) -> dict[str, Any]:
    errors = [partition["last_error"] for partition in partitions]
    newest = min(errors, key=lambda error: error["age"])
    first = max(errors, key=lambda error: error["since_age"])
    return {
        **{name: newest[name] for name in ("kind", "message", "remedy", "at", "age")},
        "since": first["since"],
        "since_age": first["since_age"],
        "stopped": sum(partition["stopped"] is not None for partition in partitions),
        "partitions": [f"{owner['topic']}/{owner['partition']}" for owner in partitions],
    }


def picture(board: Board, health: Health) -> dict[str, Any]:
    """Return everything as JSON has it.  Times are ISO 8601 in UTC, ages in seconds.

    ``snapshot_age`` is how old the partitions' part is: the loop renews it every second.
    """
    wall, monotonic = board.now()
    snapshot, about = board.snapshot, board.about
    ready = health.ready()
    well = ready.status is HTTPStatus.OK
    statuses = sorted(snapshot.statuses, key=lambda status: status.topic_partition)
    partitions = [_partition(board, status, wall, monotonic) for status in statuses]
    tables = None if board.tables is None else board.tables.known()
    return {
        "version": about.version,
        "decoder": about.decoder,
        "group": about.group,
        "instance": about.instance,
        "started": iso_time(board.started),
        "at": iso_time(wall),
        "snapshot_age": age(monotonic, snapshot.monotonic_time),
        "alive": health.alive().status is HTTPStatus.OK,
        "ready": well,
        "waiting": [] if well else ready.body.decode().splitlines(),
        "hindrance": _hindrance(board.hindrance, monotonic),
        "ledger_up": snapshot.ledger_up,
        "servers": [_server(server.name, server.state, wall) for server in board.servers.all],
        "assigned": [str(status.topic_partition) for status in statuses],
        "lag": sum(partition["lag"] or 0 for partition in partitions),
        "withheld": sum(owner["withheld"]["offsets"] for owner in partitions if owner["withheld"]),
        "buffered_bytes": sum(status.buffered for status in statuses),
        "local_bytes": sum(status.local for status in statuses),
        "errors": lasting_errors(partitions),
        "partitions": partitions,
        "coordination": None if tables is None else coordination_picture(tables, wall),
        "cluster": [] if board.cluster is None else board.cluster.rows(),
        "tables": [] if tables is None else tables_picture(tables, wall),
        "configuration": [
            {"key": key, "value": value, "source": source} for key, value, source in about.settings
        ],
    }


def _server(name: str, state: ServerState, wall: float) -> dict[str, Any]:
    error, error_time = state.error, state.error_at
    return {
        "server": name,
        "answers": state.answers,
        "answered_age": age(wall, state.answered_at),
        "failing_since": None if state.since is None else iso_time(state.since),
        "failing_age": age(wall, state.since),
        "last_error": None
        if error is None or error_time is None
        else {
            "at": iso_time(error_time),
            "age": age(wall, error_time),
            "message": str(error),
            "remedy": remedy(error),
        },
    }


def _hindrance(hindrance: Hindrance | None, monotonic: float) -> dict[str, Any] | None:
    if hindrance is None:
        return None
    error = hindrance.error
    return {
        "server": hindrance.server,
        "age": age(monotonic, hindrance.since),
        "message": None if error is None else str(error),
        "remedy": None if error is None else remedy(error),
    }


def _partition(board: Board, status: Status, wall: float, monotonic: float) -> dict[str, Any]:
    where = status.topic_partition
    upload, mishap = board.upload(where), board.mishap(where)
    waits = waiting_seconds(status, monotonic)
    return {
        "topic": where.topic,
        "partition": where.partition,
        "state": str(status.state),
        "committed": status.committed,
        "position": status.next_offset,
        "end": status.known_end,
        "lag": lag_offsets(status),
        "withheld": _withheld(status, wall),
        "lag_seconds": round(lag_seconds(status, wall, monotonic), 3),
        "oldest_uncommitted": None if waits is None else round(waits, 3),
        "batch": {
            "age": age(monotonic, status.batch_opened),
            "messages": status.batch_messages,
            "bytes": status.batch_size,
            "files": status.batch_files,
        },
        "follows_intent_to": status.intent_end,
        "sealed": status.sealed and [status.sealed.start, status.sealed.end],
        "sealed_batches": status.sealed_batches,
        "uploading": status.in_work,
        "last_commit_age": age(monotonic, status.committed_at),
        "last_upload": upload
        and {"at": iso_time(upload.time), "age": age(wall, upload.time), "batch_age": upload.age},
        "last_error": mishap and _mishap(mishap, status, wall, monotonic),
        "stopped": None if status.error is None else str(status.error),
        "stopped_age": age(monotonic, status.stopped_at),
        "paused": None if status.pause is None else str(status.pause),
        "again_in": None if status.again_at is None else age(status.again_at, monotonic),
    }


def _withheld(status: Status, wall: float) -> dict[str, Any] | None:
    if status.withheld is None:
        return None
    transaction = status.withheld.transaction
    return {
        "offsets": status.withheld.offsets,
        "seconds": round(withheld_seconds(status, wall), 3),
        "transaction": None if transaction is None else asdict(transaction),
        "behind": str(OpenTransaction() if transaction is None else transaction),
    }


def _mishap(mishap: Mishap, status: Status, wall: float, monotonic: float) -> dict[str, Any]:
    """Return an error; it is over when its partition has committed, or been positioned, since."""
    well_age = age(monotonic, status.committed_at)
    over = well_age is not None and well_age <= wall - mishap.time
    return {
        "at": iso_time(mishap.time),
        "age": age(wall, mishap.time),
        "since": iso_time(mishap.since),
        "since_age": age(wall, mishap.since),
        "over": over and status.state is not ReadingState.STOPPED,
        "kind": mishap.kind,
        "message": mishap.message,
        "remedy": mishap.remedy,
    }
