"""Files of consumer groups' offsets."""

from __future__ import annotations

from pathlib import Path

import pytest

from secor.core.errors import ConfigurationError
from secor.jobs.restore.group_offsets import offsets_of_file


def test_a_first_line_with_the_names_of_the_columns_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "groups.csv"
    path.write_text("group,topic,partition,offset\nreaders,clicks,3,100\n")
    (known,) = offsets_of_file(path, ()).offsets
    assert (known.group, str(known.topic_partition), known.offset) == ("readers", "clicks/3", 100)
    path.write_text("readers,clicks,3,100\ngroup,topic,partition,offset\n")
    with pytest.raises(ConfigurationError, match=r"groups\.csv, line 2: is no group,topic"):
        offsets_of_file(path, ())
