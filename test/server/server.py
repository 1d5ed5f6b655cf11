# SPDX-License-Identifier: MIT
"""Starts `oort serve` for tests and ends it."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

OORT = os.environ.get("OORT", "build/oort")
SOURCE = pathlib.Path(os.environ.get("OORT_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
STORYTELLER = SOURCE / "models/storyteller"
ENCODER = SOURCE / "test/encoders/tiny_bert"
RERANKER = SOURCE / "test/encoders/bert_reranker"
SECONDS = 120  # to wait for what must come
# Of a model that knows tools: it is told their names, and reads calls and results.
TOOL_TEMPLATE = (
    "{{ bos_token }}{% if tools %}{{ '<|user|><tool_call>' }}{% for tool in tools %}{{ ' ' + tool.function.name }}"
    "{% endfor %}{{ eos_token }}{% endif %}{% for message in messages %}"
    "{{ '<|assistant|>' if message.role == 'assistant' else '<|user|>' }}{{ message.content or '' }}"
    "{% for call in message.tool_calls or [] %}{{ call.function.name }}{{ call.function.arguments | tojson }}"
    "{% endfor %}"
    "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}"
    "{% if think %}{{ '<think>' }}{% endif %}{% endif %}"
)


def go_on_in(environment):
    """Goes on in a Python of tools/server-clients, where OORT_CLIENTS names the folder of one; with another client of
    OpenAI where OORT_OPENAI names its environment, or not at all."""
    wanted = os.environ.get("OORT_OPENAI") if environment == "openai" else None
    environment = wanted or environment
    folder = pathlib.Path(os.environ.get("OORT_CLIENTS", "/nowhere"), environment)
    python = folder / "bin/python"
    if python.exists() and pathlib.Path(sys.prefix) != folder:
        os.execv(python, [str(python), *sys.argv])
    if wanted and pathlib.Path(sys.prefix) != folder:
        print(f"skipped: no {wanted}: see tools/server-clients", file=sys.stderr)
        sys.exit(77)


def storyteller_with(template, folder):
    """The storyteller but for its chat template, in a folder."""
    folder = pathlib.Path(folder, "storyteller")
    folder.mkdir()
    for name in ("config.json", "generation_config.json", "model.safetensors", "tokenizer.json"):
        shutil.copy(STORYTELLER / name, folder / name)
    config = json.loads((STORYTELLER / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": template}))
    return folder


def each_row(rows):
    """Makes a test of its own for every row of a table: test_x("row") becomes test_x_row."""

    def decorate(check):
        check.rows = rows
        return check

    return decorate


def with_rows(suite):
    """Of a class: gives it the tests of its tables."""
    for name, check in list(vars(suite).items()):
        if not hasattr(check, "rows"):
            continue
        delattr(suite, name)
        for i, row in enumerate(check.rows):
            label = re.sub(r"\W+", "_", str(row[0]))[:40]
            setattr(suite, f"{name}_{i}_{label}", lambda self, check=check, row=row: check(self, *row))
    return suite


class Server:
    """A server on a free port, which ends with the block it serves."""

    def __init__(self, *arguments, model=STORYTELLER, mode=("--exact", "--threads", "1"), port=0):
        self.command = [OORT, "serve", str(model), "--port", str(port), *mode, *map(str, arguments)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            match = re.fullmatch(r"oort: serving (\S+)(?:, \S+)*(?: and \S+)? at (https?://\S+:\d+)\n", line)
            if match:
                self.name, self.url = match.groups()
                return self
        raise AssertionError("oort serve did not start: " + "".join(self.log))

    def stop(self, sent=signal.SIGTERM):
        """Asks it to end; its exit code."""
        self.process.send_signal(sent)
        self.log += self.process.communicate(timeout=SECONDS)[1].splitlines(keepends=True)
        return self.process.returncode

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()
