#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""schemathesis makes requests from the server's OpenAPI file: each must end with 2xx or 4xx, and with an answer of the
form that the file says. Deadlines are left out: one of a millisecond is missed now and then, which is a 504. Ends
with 77, which ctest takes for skipped, where schemathesis is not installed. OORT_EXAMPLES is how many requests each
route gets."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

from server import ENCODER, TOOL_TEMPLATE, Server, go_on_in, storyteller_with

go_on_in("clients")
program = pathlib.Path(sys.executable).parent / "schemathesis"
if not program.exists():
    print("skipped: pip install -r test/server/clients.txt", file=sys.stderr)
    sys.exit(77)


def without_deadlines(document):
    """An OpenAPI document whose requests have no `timeout`."""
    for schema in document["components"]["schemas"].values():
        schema.get("properties", {}).pop("timeout", None)
    return document


CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
with tempfile.TemporaryDirectory() as folder:
    model = storyteller_with(TOOL_TEMPLATE, folder)
    with Server("--quiet", "--max-tokens", 8, "--encoder", f"minilm={ENCODER}", model=model) as server:
        examples = os.environ.get("OORT_EXAMPLES", "10")
        document = pathlib.Path(folder, "openapi.json")
        with urllib.request.urlopen(server.url + "/openapi.json") as answer:
            document.write_text(json.dumps(without_deadlines(json.load(answer))))
        command = [str(program), "run", str(document), "--url", server.url, "--checks", CHECKS]
        command += ["--max-examples", examples]
        command += ["--mode", "all", "--seed", "1", "--generation-database", "none", "--request-timeout", "60"]
        done = subprocess.run(command, cwd=folder, timeout=570)
        if server.process.poll() is not None:
            sys.exit("the server ended")
        sys.exit(done.returncode)
