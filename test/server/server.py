# SPDX-License-Identifier: MIT
"""Starts `oort serve` for tests and ends it."""
import os
import pathlib
import re
import signal
import subprocess

OORT = os.environ.get("OORT", "build/oort")
SOURCE = pathlib.Path(os.environ.get("OORT_SOURCE", pathlib.Path(__file__).resolve().parents[2]))
STORYTELLER = SOURCE / "models/storyteller"
SECONDS = 120  # to wait for what must come


class Server:
    """A server on a free port, which ends with the block it serves."""

    def __init__(self, *arguments, model=STORYTELLER):
        self.command = [OORT, "serve", str(model), "--port", "0", "--exact", "--threads", "1", *map(str, arguments)]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stderr=subprocess.PIPE, text=True)
        self.log = []
        for line in self.process.stderr:
            self.log.append(line)
            match = re.fullmatch(r"oort: serving (\S+) at (https?://\S+:\d+)\n", line)
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
