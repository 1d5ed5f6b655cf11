# SPDX-License-Identifier: MIT
"""The notebooks of docs/notebooks: their cells run, and are those of their scripts."""
import json
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))


def test_cells_run_and_give_what_the_notebooks_show(environment):
    pytest.importorskip("matplotlib")
    command = [sys.executable, ROOT / "tools/notebook", "--check"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_is_a_notebook_with_pictures(path):
    found = json.loads(path.read_text(encoding="utf-8"))
    assert (found["nbformat"], found["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in found["cells"]}) == len(found["cells"])
    shown = [output.get("data", {}) for cell in found["cells"] for output in cell.get("outputs", [])]
    assert sum("image/png" in data for data in shown) >= 4 and any("text/html" in data for data in shown)
    assert "/tmp/tmp" not in path.read_text(encoding="utf-8")  # the folder of one run
