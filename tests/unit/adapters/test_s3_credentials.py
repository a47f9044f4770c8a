"""Credentials of S3 that nobody had when the client was made."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from botocore.exceptions import NoCredentialsError

from secor.adapters.s3.client import connect


def test_credentials_that_come_later_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client signs an address by itself: nothing is sent."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    file = tmp_path / "credentials"
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    client = connect(region="eu-west-1")
    wanted = {"Bucket": "b", "Key": "k"}
    with pytest.raises(NoCredentialsError):
        client.generate_presigned_url("get_object", wanted)
    file.write_text("[default]\naws_access_key_id = AKIALATE\naws_secret_access_key = s\n")
    assert "AKIALATE" in client.generate_presigned_url("get_object", wanted)
    file.unlink()
    assert "AKIALATE" in client.generate_presigned_url("get_object", wanted)
