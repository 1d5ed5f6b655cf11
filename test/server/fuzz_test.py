#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""schemathesis makes requests from the server's OpenAPI file: each must end with 2xx or 4xx, and with an answer of the
form that the file says. Deadlines are left out: one of a millisecond is missed now and then, which is a 504. Ends
with 77, which ctest takes for skipped, where schemathesis is not installed. OORT_EXAMPLES is how many requests each
route gets, and OORT_SEED which."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

from server import ENCODER, SOURCE, TOOL_TEMPLATE, Server, go_on_in, storyteller_with

go_on_in("clients")
program = pathlib.Path(sys.executable).parent / "schemathesis"
if not program.exists():
    print("skipped: pip install -r test/server/clients.txt", file=sys.stderr)
    sys.exit(77)

# Half of all names are of somebody who is there: schemathesis would not guess them.
MODELS = ["storyteller", "minilm", "digits", "nobody"]
PORTS = ["in0", "out0", "in1"]


def narrowed(document):
    """An OpenAPI document whose requests have no `timeout`, and names that lead somewhere."""
    schemas = document["components"]["schemas"]
    for name, schema in schemas.items():
        properties = schema.get("properties", {})
        properties.pop("timeout", None)
        if name.endswith("Request") and "model" in properties:
            properties["model"] = {"enum": ["storyteller", "minilm", "nobody", None]}
    asked = schemas["InferRequest"]["properties"]
    schemas["InferInput"]["properties"]["name"] = {"enum": PORTS}
    schemas["InferInput"]["properties"]["shape"]["items"]["maximum"] = 4
    asked["outputs"]["items"]["properties"]["name"] = {"enum": PORTS}
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", []):
                if parameter["name"] == "name":
                    parameter["schema"] = {"enum": MODELS}
    return document


DIGITS = SOURCE / "models/digits"
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
with tempfile.TemporaryDirectory() as folder:
    model = storyteller_with(TOOL_TEMPLATE, folder)
    options = ("--quiet", "--max-tokens", 8, "--encoder", f"minilm={ENCODER}", "--graph", f"digits={DIGITS}")
    with Server(*options, model=model) as server:
        examples = int(os.environ.get("OORT_EXAMPLES", "10"))
        document = pathlib.Path(folder, "openapi.json")
        with urllib.request.urlopen(server.url + "/openapi.json") as answer:
            document.write_text(json.dumps(narrowed(json.load(answer))))
        command = [str(program), "run", str(document), "--url", server.url, "--checks", CHECKS]
        command += ["--max-examples", str(examples)]
        command += ["--mode", "all", "--seed", os.environ.get("OORT_SEED", "1"), "--generation-database", "none"]
        command += ["--request-timeout", "60"]
        # One that hangs is to end before its ctest does; many examples take longer.
        done = subprocess.run(command, cwd=folder, timeout=max(570, 6 * examples))
        if server.process.poll() is not None:
            sys.exit("the server ended")
        sys.exit(done.returncode)
