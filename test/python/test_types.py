# SPDX-License-Identifier: MIT
"""mypy, where it is installed: the package itself, its stubs against the module, and a program that uses all of it."""
import os
import pathlib
import re
import subprocess
import sys

import pytest

import oort

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "test/python/typed_program.py"

pytest.importorskip("mypy")


def check(tmp_path, tool, *arguments):
    command = [sys.executable, "-m", tool, *arguments]
    env = {**os.environ, "MYPYPATH": str(ROOT / "python"), "MYPY_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=env)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_keeps_to_its_types(tmp_path):
    check(tmp_path, "mypy")


def test_a_program_with_all_of_it_keeps_to_them(tmp_path):
    named = set(re.findall(r"\boort\.(\w+)", PROGRAM.read_text(encoding="utf-8")))
    assert not set(oort.__all__) - named
    check(tmp_path, "mypy", str(PROGRAM))


def test_a_wrong_program_does_not(tmp_path):
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import oort\n\nmodel = oort.LanguageModel(5)\ntext: int = model.path\n")
    with pytest.raises(AssertionError, match="Found 2 errors"):
        check(tmp_path, "mypy", str(wrong))


def test_stubs_are_those_of_the_module(tmp_path):
    # Classes and functions of nanobind are none of Python's: members and constants are compared, and what is there.
    allowed = [r"oort\._oort\.\w+", r"oort\._oort\.\w+\.__(init|new)__", r"oort\._network\.Network"]
    (tmp_path / "allowed").write_text("\n".join(allowed))
    options = ["--allowlist", str(tmp_path / "allowed"), "--ignore-unused-allowlist", "--ignore-disjoint-bases"]
    check(tmp_path, "mypy.stubtest", "oort", "--mypy-config-file", str(ROOT / "pyproject.toml"), *options)
