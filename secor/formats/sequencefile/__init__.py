"""Hadoop's SequenceFile: the default format of backups."""

from secor.formats.sequencefile.format import CodecName, KeyLayout, SequenceFileFormat

__all__ = ["CodecName", "KeyLayout", "SequenceFileFormat"]
