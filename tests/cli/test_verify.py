"""``plackett verify``."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

import plackett as pk
from plackett.cli.app import app


def run(*arguments: object):
    return CliRunner().invoke(app, ["verify", *map(str, arguments)])


@pytest.fixture(scope="module")
def data():
    return pk.synthetic("letor", n_lists=10, seed=1)


def test_a_model_is_verified_with_its_signature(data, tmp_path) -> None:
    key = tmp_path / "key"
    key.write_text("k" * 20)
    pk.LinearRanker(C=1.0).fit(data).save(tmp_path / "m.plackett", sign_key=key)
    done = run(tmp_path / "m.plackett", "--sign-key", key, "--json")
    assert json.loads(done.stdout)["signature"] == "valid"
    assert json.loads(run(tmp_path / "m.plackett", "--json").stdout)["signature"] == "not checked"
    file = tmp_path / "m.plackett" / "linear.json"
    file.write_text(file.read_text().replace("0", "1", 1))
    with pytest.raises(pk.DataError, match="its hash differs"):
        raise run(tmp_path / "m.plackett").exception


def test_data_are_verified(data, tmp_path) -> None:
    pk.write(data, tmp_path / "d.pkdata")
    assert "checksums of all its blocks are right" in run(tmp_path / "d.pkdata").stdout
    file = tmp_path / "d.pkdata" / "features.npy"
    content = bytearray(file.read_bytes())
    content[-2] ^= 64
    file.write_bytes(content)
    with pytest.raises(pk.DataError, match="their checksum differs"):
        raise run(tmp_path / "d.pkdata").exception


def test_what_has_no_checksums_is_refused(data, tmp_path) -> None:
    pk.write(data, tmp_path / "d.txt")
    with pytest.raises(pk.DataError, match=r"neither a model nor a \.pkdata directory"):
        raise run(tmp_path / "d.txt").exception
