#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The files of deploy/, tried as far as this machine has the programs for it."""
import json
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import unittest
import urllib.request

from server import OORT, SECONDS, SOURCE, Server
from watch import metric, wait_for

DEPLOY = SOURCE / "deploy"


def options_of(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class DeployTest(unittest.TestCase):
    def test_options_are_those_of_the_program(self):
        help_text = subprocess.run([OORT, "serve", "--help"], capture_output=True, text=True, check=True).stdout
        known = options_of(help_text)
        for name, lines in (
            ("oort.service", r"^(?:ExecStart|# Options).*$"),
            ("kubernetes.yaml", r"^\s+args:.*$"),
            ("Containerfile", r"^(?:ENTRYPOINT|#.*(?:--allow-open|--api-key-file)).*$"),
        ):
            text = "\n".join(re.findall(lines, (DEPLOY / name).read_text(), re.MULTILINE))
            self.assertTrue(text, name)
            self.assertEqual(options_of(text) - known - {"--rm"}, set(), name)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "needs systemd-analyze")
    def test_unit(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(folder, "oort.service")
            text = (DEPLOY / "oort.service").read_text()
            unit.write_text(text.replace("/usr/local/bin/oort", str(pathlib.Path(OORT).resolve())))
            done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
            faults = [line for line in done.stderr.splitlines() if "oort.service" in line]
            self.assertEqual(faults, [])

    def test_kubernetes(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("needs PyYAML")
        deployment, service = yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
        self.assertEqual((deployment["apiVersion"], deployment["kind"]), ("apps/v1", "Deployment"))
        self.assertEqual((service["apiVersion"], service["kind"]), ("v1", "Service"))
        pod = deployment["spec"]["template"]
        labels = pod["metadata"]["labels"]
        self.assertEqual(deployment["spec"]["selector"]["matchLabels"], labels)
        self.assertEqual(service["spec"]["selector"], labels)
        (container,) = pod["spec"]["containers"]
        mounts = {mount["name"] for mount in container["volumeMounts"]}
        self.assertEqual(mounts, {volume["name"] for volume in pod["spec"]["volumes"]})
        ports = {port["name"] for port in container["ports"]}
        self.assertIn(service["spec"]["ports"][0]["targetPort"], ports)
        with tempfile.TemporaryDirectory() as folder:
            keys = pathlib.Path(folder, "keys")
            keys.write_text("secret\n")
            with Server("--api-key-file", keys) as server:  # as its arguments have it
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    get = container[probe]["httpGet"]
                    self.assertIn(get["port"], ports)
                    self.assertEqual(urllib.request.urlopen(server.url + get["path"], timeout=SECONDS).status, 200)

    @unittest.skipUnless(shutil.which("nginx", path="/usr/sbin:/usr/bin") and shutil.which("openssl"),
                         "needs nginx and openssl")
    def test_nginx(self):
        with tempfile.TemporaryDirectory() as name, Server() as one, Server() as two:
            folder, port = pathlib.Path(name), free_port()
            subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                            "-nodes",
                            "-keyout", folder / "tls.key", "-out", folder / "tls.pem", "-days", "2", "-subj",
                            "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
            text = (DEPLOY / "nginx.conf").read_text()
            for old, new in (("/etc/oort/", f"{folder}/"), ("listen 8443", f"listen 127.0.0.1:{port}"),
                             ("127.0.0.1:8081", one.url[7:]), ("127.0.0.1:8082", two.url[7:])):
                self.assertIn(old, text)
                text = text.replace(old, new)
            paths = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi",
                                                                               "uwsgi", "scgi"))
            conf = folder / "nginx.conf"
            conf.write_text(f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}} "
                            f"http {{ access_log off; {paths}\n{text}\n}}\n")
            folder.chmod(0o755)
            nginx = shutil.which("nginx", path="/usr/sbin:/usr/bin")
            done = subprocess.run([nginx, "-t", "-c", conf], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            process = subprocess.Popen([nginx, "-c", conf], stderr=subprocess.DEVNULL)
            try:
                self.ask_through_nginx(f"https://127.0.0.1:{port}", folder / "tls.pem", (one, two), port)
            finally:
                process.terminate()
                process.wait(SECONDS)

    def ask_through_nginx(self, url, certificate, servers, port):
        context = ssl.create_default_context(cafile=str(certificate))

        def listens():
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return True
            except ConnectionRefusedError:
                return False

        def ask(affinity, stream=False):
            body = json.dumps({"prompt": "Once", "max_tokens": 6, "stream": stream, "ignore_eos": True}).encode()
            request = urllib.request.Request(url + "/v1/completions", body,
                                             {"Content-Type": "application/json", "X-Oort-Affinity": affinity})
            return urllib.request.urlopen(request, timeout=SECONDS, context=context)

        def answered():
            return [metric(server.url, "oort:request_success_total") for server in servers]

        wait_for(listens)
        with ask("stream", stream=True) as stream:
            self.assertTrue(stream.read().endswith(b"data: [DONE]\n\n"))
        wait_for(lambda: sum(answered()) == 1)
        # One conversation stays where it is, many are spread.
        before = answered()
        for _ in range(6):
            ask("conversation 1").read()
        wait_for(lambda: sum(answered()) == 7)  # who has an answer is counted a moment later
        moved = [now - old for now, old in zip(answered(), before)]
        self.assertEqual(sorted(moved), [0, 6])
        for i in range(24):
            ask(f"conversation {i}").read()
        wait_for(lambda: all(now > old for now, old in zip(answered(), before)))
        # A server that ends takes nobody's request with it.
        self.assertEqual(servers[moved.index(6)].stop(), 0)
        ask("conversation 1").read()
        self.assertEqual(urllib.request.urlopen(url + "/ready", timeout=SECONDS, context=context).status, 200)


if __name__ == "__main__":
    unittest.main()
