# SPDX-License-Identifier: MIT
"""Tests of the Python package, which PYTHONPATH leads to. They run in the folder of the repository."""
import json
import os
import pathlib
import shutil
import sys

import numpy
import pytest

import oort

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def in_repository(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture(scope="session")
def digits():
    return oort.load(ROOT / "models/digits", threads=1)


@pytest.fixture(scope="session")
def picture():
    return numpy.random.default_rng(1).random((1, 1, 28, 28), numpy.float32)


@pytest.fixture(scope="session")
def storyteller():
    return oort.LanguageModel(ROOT / "models/storyteller", threads=1)


@pytest.fixture
def storyteller_with(tmp_path):
    """The storyteller with another chat template: models that know tools and reasoning are larger."""

    def load(chat_template, **options):
        others = shutil.ignore_patterns("tokenizer_config.json")
        shutil.copytree(ROOT / "models/storyteller", tmp_path, ignore=others, dirs_exist_ok=True)
        config = json.loads((ROOT / "models/storyteller/tokenizer_config.json").read_text())
        (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": chat_template}))
        return oort.LanguageModel(tmp_path, threads=1, **options)

    return load


@pytest.fixture(scope="session")
def environment():
    """For programs that tests start."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def chain(operators, inputs="a", outputs=None, shape="(4)", dtype="f32"):
    """The text of a network: `operators` are lines without their hints, each of which gives the next letter."""
    lines = [f"pnnx.Input in{i} 0 1 {name} #{name}={shape}{dtype}" for i, name in enumerate(inputs)]
    lines += operators
    outputs = outputs or [operators[-1].split()[4 + int(operators[-1].split()[2])]]
    lines += [f"pnnx.Output out{i} 1 0 {name}" for i, name in enumerate(outputs)]
    operands = {word for line in lines for word in line.split()[4 : 4 + sum(map(int, line.split()[2:4]))]}
    return ("7767517\n" + f"{len(lines)} {len(operands)}\n" + "\n".join(lines) + "\n").encode()
