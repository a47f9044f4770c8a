"""Metadata of files recorded anew: what is right, and a snapshot with the same files that says so.

Entries keep their snapshots and sequence numbers, so deletes stay with the rows that they are of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import localcontext
from typing import Any

from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from secor.adapters.iceberg.appending import AppendedSnapshot
from secor.adapters.iceberg.data_file_contents import FileContents, encode_bound
from secor.adapters.iceberg.data_file_rows import EXACT
from secor.verify.metadata import WrongMetadata

Corrections = Mapping[str, Mapping[str, Any]]
"""What is right, by the names of the library's data file, of each file, by its path; nothing of a
manifest that only has to be written again.
"""

_DATA_FILE = (
    *("content", "file_path", "file_format", "partition", "record_count", "file_size_in_bytes"),
    *("column_sizes", "value_counts", "null_value_counts", "nan_value_counts"),
    *("lower_bounds", "upper_bounds", "key_metadata", "split_offsets", "equality_ids"),
    "sort_order_id",
)

ROWS, SIZE, SPLIT_OFFSETS = "number of rows", "size", "split offsets"
VALUES, NULLS, NANS = "number of values", "number of nulls", "number of NaNs"
LOWER, UPPER = "lower bound", "upper bound"
"""Names of what is recorded, in findings."""


def corrections(
    file: DataFile, contents: FileContents, wrong: Sequence[WrongMetadata]
) -> Mapping[str, Any] | None:
    """Return what is to be recorded instead of what is wrong, by names of the data file's fields.

    None where there is nothing to correct, or the files of deletes, which the library writes no
    manifests for.
    """
    if file.content != DataFileContent.DATA:
        return None
    right: dict[str, Any] = {}
    for fault in wrong:
        if fault.what == ROWS:
            right["record_count"] = contents.records
        elif fault.what == SIZE:
            right["file_size_in_bytes"] = contents.size
        elif fault.what == SPLIT_OFFSETS:
            right["split_offsets"] = list(contents.row_groups or ())
        for name in _FIELDS.get(fault.what, ()):
            by_id = right.setdefault(name, dict(getattr(file, name) or {}))
            for field_id, column in contents.columns.items():
                # Only what is recorded is corrected: a table may leave out metrics of a column.
                if column.name == fault.column and by_id.pop(field_id, None) is not None:
                    value = _right_value(name, contents, field_id)
                    by_id |= {} if value is None else {field_id: value}
    return right or None


_FIELDS: Mapping[str, Sequence[str]] = {
    VALUES: ("value_counts", "null_value_counts"),
    NULLS: ("value_counts", "null_value_counts"),
    NANS: ("nan_value_counts",),
    LOWER: ("lower_bounds",),
    UPPER: ("upper_bounds",),
}


def _right_value(name: str, contents: FileContents, field_id: int) -> int | bytes | None:
    column = contents.columns[field_id]
    match name:
        case "value_counts":
            return contents.records
        case "null_value_counts":
            return column.nulls
        case "nan_value_counts":
            return column.nans
        case "lower_bounds":
            return encode_bound(column.kind, column.least)
    return encode_bound(column.kind, column.greatest, is_upper=True)


_TOTALS = {"total-records": "record_count", "total-files-size": "file_size_in_bytes"}
"""Lines of a summary, and the fields that they add up."""


class CorrectedSnapshot(AppendedSnapshot):
    """One try of one commit; see ``AppendedSnapshot``."""

    def correct(self, corrections: Corrections) -> Snapshot | None:
        """Write manifests anew that have something to correct; None where none has.

        Raises what the library raises.
        """
        changed: dict[str, int] = dict.fromkeys(_TOTALS, 0)
        manifests = []
        is_changed = False
        with localcontext(EXACT):
            for manifest in self._base.manifests(self._io) if self._base is not None else ():
                entries = self.fetch_manifest_entry(manifest)
                if not entries:
                    continue
                if manifest.content == ManifestContent.DATA and (
                    manifest.manifest_path in corrections
                    or any(_differs(entry.data_file, corrections) for entry in entries)
                ):
                    is_changed = True
                    manifest = self._write_again(manifest, entries, corrections, changed)
                manifests.append(manifest)
        if not is_changed:
            return None
        return self._snapshot(manifests, self._replaced(changed))

    def _write_again(
        self,
        manifest: ManifestFile,
        entries: Sequence[ManifestEntry],
        corrections: Corrections,
        changed: dict[str, int],
    ) -> ManifestFile:
        with self.new_manifest_writer(self._specs[manifest.partition_spec_id]) as writer:
            for entry in entries:
                file = entry.data_file
                right = corrections.get(file.file_path, {})
                for line, name in _TOTALS.items():
                    changed[line] += right.get(name, getattr(file, name)) - getattr(file, name)
                # As existing, with the numbers that they have: as new files they would get out of
                # reach of the deletes on them.
                writer.existing(
                    ManifestEntry.from_args(
                        snapshot_id=entry.snapshot_id,
                        sequence_number=entry.sequence_number,
                        file_sequence_number=entry.file_sequence_number,
                        data_file=_corrected(file, right),
                    )
                )
        return writer.to_manifest_file()

    def _replaced(self, changed: Mapping[str, int]) -> Summary:
        """Return the summary below, with totals as they are now."""
        base = self._base
        before = base.summary.additional_properties if base and base.summary else {}
        totals = {line: text for line, text in before.items() if line.startswith("total-")}
        for line, difference in changed.items():
            if line in totals:
                totals[line] = str(int(totals[line]) + difference)
        return Summary(operation=Operation.REPLACE, **totals)


def _differs(file: DataFile, corrections: Corrections) -> bool:
    right = corrections.get(file.file_path, {})
    return any(getattr(file, name) != value for name, value in right.items())


def _corrected(file: DataFile, right: Mapping[str, Any]) -> DataFile:
    fields = {name: right.get(name, getattr(file, name)) for name in _DATA_FILE}
    corrected = DataFile.from_args(**fields)
    # The library's data file has it next to its fields, so it is not copied with them.
    corrected.spec_id = file.spec_id
    return corrected
