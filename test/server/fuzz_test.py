#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""schemathesis makes requests from the server's OpenAPI file: each must end with 2xx or 4xx, and with an answer of the
form that the file says. Ends with 77, which ctest takes for skipped, where schemathesis is not installed. OORT_EXAMPLES
is how many requests each route gets."""
import os
import pathlib
import subprocess
import sys
import tempfile

from server import ENCODER, TOOL_TEMPLATE, Server, go_on_in, storyteller_with

go_on_in("clients")
program = pathlib.Path(sys.executable).parent / "schemathesis"
if not program.exists():
    print("skipped: pip install -r test/server/clients.txt", file=sys.stderr)
    sys.exit(77)
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
with tempfile.TemporaryDirectory() as folder:
    model = storyteller_with(TOOL_TEMPLATE, folder)
    with Server("--quiet", "--max-tokens", 8, "--encoder", f"minilm={ENCODER}", model=model) as server:
        examples = os.environ.get("OORT_EXAMPLES", "10")
        command = [str(program), "run", server.url + "/openapi.json", "--checks", CHECKS, "--max-examples", examples]
        command += ["--mode", "all", "--seed", "1", "--generation-database", "none", "--request-timeout", "60"]
        done = subprocess.run(command, cwd=folder, timeout=570)
        if server.process.poll() is not None:
            sys.exit("the server ended")
        sys.exit(done.returncode)
