"""botocore's models are what botocore reads, wherever they are."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import botocore.session
import pytest
from botocore.exceptions import DataNotFoundError, UnknownServiceError
from botocore.loaders import Loader

from secor.adapters.s3.client import ModelLoader, use_quick_models

MODELS = [(name, kind) for name in ("s3", "sts") for kind in ("service-2", "endpoint-rule-set-1")]


@pytest.mark.parametrize(("service", "kind"), MODELS)
def test_models_are_those_that_botocore_reads(service: str, kind: str) -> None:
    assert ModelLoader().load_service_model(service, kind) == Loader().load_service_model(
        service, kind
    )


@pytest.mark.parametrize("name", ["endpoints", "partitions", "_retry", "sdk-default-configuration"])
def test_other_data_is_what_botocore_reads(name: str) -> None:
    assert ModelLoader().load_data_with_path(name) == Loader().load_data_with_path(name)


def test_all_services_of_botocore_are_there_and_unknown_ones_are_not() -> None:
    ours = ModelLoader()
    assert set(ours.list_available_services("service-2")) >= {"s3", "sts", "sso", "sso-oidc"}
    with pytest.raises(UnknownServiceError):
        ours.load_service_model("no-such-service", "service-2")
    with pytest.raises(DataNotFoundError):
        ours.load_service_model("s3", "no-such-kind-1")


@pytest.mark.parametrize("packed", [False, True])
def test_models_in_the_users_own_folder_come_first(
    packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.dumps({"metadata": {"ours": True}}).encode()
    folder = tmp_path / "s3" / "2999-01-01"
    folder.mkdir(parents=True)
    if packed:
        (folder / "service-2.json.gz").write_bytes(gzip.compress(content))
    else:
        (folder / "service-2.json").write_bytes(content)
    monkeypatch.setenv("AWS_DATA_PATH", str(tmp_path))
    session = botocore.session.Session()
    use_quick_models(session)
    loader = session.get_component("data_loader")
    assert loader.load_service_model("s3", "service-2") == {"metadata": {"ours": True}}
    assert loader.load_data("endpoints") == Loader().load_data("endpoints")
