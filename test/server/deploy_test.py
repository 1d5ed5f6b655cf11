#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The files of deploy/, tried as far as this machine has the programs for it."""
import contextlib
import json
import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import threading
import unittest
import urllib.request

from server import OORT, SECONDS, SOURCE, Server
from watch import address, is_idle, metric, wait_for

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

    def test_nginx(self):
        with Server() as one, Server() as two, Nginx(one.url, two.url) as nginx:
            servers = (one, two)

            def answered():
                return [metric(server.url, "oort:request_success_total") for server in servers]

            with nginx.ask("stream", stream=True) as stream:
                self.assertTrue(stream.read().endswith(b"data: [DONE]\n\n"))
            wait_for(lambda: sum(answered()) == 1)
            # One conversation stays where it is, many are spread.
            before = answered()
            for _ in range(6):
                nginx.ask("conversation 1").read()
            wait_for(lambda: sum(answered()) == 7)  # who has an answer is counted a moment later
            moved = [now - old for now, old in zip(answered(), before)]
            self.assertEqual(sorted(moved), [0, 6])
            for i in range(24):
                nginx.ask(f"conversation {i}").read()
            wait_for(lambda: all(now > old for now, old in zip(answered(), before)))
            # A server that ends takes nobody's request with it.
            self.assertEqual(servers[moved.index(6)].stop(), 0)
            nginx.ask("conversation 1").read()
            self.assertEqual(nginx.open("/ready").status, 200)

    def test_nginx_while_servers_begin_anew(self):
        """One server after the other is told to end, and begins anew. Who asks meanwhile notices nothing of it."""
        with contextlib.ExitStack() as stack:
            # Nobody reads their lines meanwhile: a full pipe would hold them up.
            servers = [stack.enter_context(Server("--quiet", port=free_port())) for _ in range(2)]
            nginx = stack.enter_context(Nginx(*(server.url for server in servers)))
            asking = stack.enter_context(Asking(nginx))
            for i, server in enumerate(servers):
                asking.wait_for_more(16)
                self.assertEqual(server.stop(), 0)
                asking.wait_for_more(16)
                servers[i] = stack.enter_context(Server("--quiet", port=address(server.url)[1]))
                wait_for(lambda url=server.url: metric(url, "oort:request_success_total") >= 8)
            # What belongs together is together again.

            def answered():
                wait_for(lambda: all(is_idle(server.url) for server in servers))
                return [metric(server.url, "oort:request_success_total") for server in servers]

            asking.end()
            before = answered()
            for _ in range(6):
                nginx.ask("conversation 1").read()
            wait_for(lambda: sum(answered()) == sum(before) + 6)
            self.assertEqual(sorted(now - old for now, old in zip(answered(), before)), [0, 6])
        self.assertEqual(asking.failures, [])


class Nginx:
    """nginx by the file of deploy/, before two servers."""

    def __init__(self, *urls):
        self.urls = urls

    def __enter__(self):
        program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/bin")
        if not program or not shutil.which("openssl"):
            raise unittest.SkipTest("needs nginx and openssl")
        self.folder = tempfile.TemporaryDirectory()
        folder, port = pathlib.Path(self.folder.name), free_port()
        certificate = folder / "tls.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-keyout", folder / "tls.key", "-out", certificate, "-days", "2", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        text = (DEPLOY / "nginx.conf").read_text()
        replaced = [("/etc/oort/", f"{folder}/"), ("listen 8443", f"listen 127.0.0.1:{port}"),
                    ("127.0.0.1:8081", self.urls[0][7:]), ("127.0.0.1:8082", self.urls[1][7:]),
                    ("fail_timeout=5s", "fail_timeout=1s")]  # the test need not wait so long
        for old, new in replaced:
            if old not in text:
                raise AssertionError(f"nginx.conf has no {old}")
            text = text.replace(old, new)
        paths = " ".join(f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi",
                                                                           "scgi"))
        conf = folder / "nginx.conf"
        conf.write_text(f"daemon off; pid {folder}/pid; error_log {folder}/error.log; events {{}} "
                        f"http {{ access_log off; {paths}\n{text}\n}}\n")
        folder.chmod(0o755)
        done = subprocess.run([program, "-t", "-c", conf], capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(done.stderr)
        self.context = ssl.create_default_context(cafile=str(certificate))
        self.url = f"https://127.0.0.1:{port}"
        self.process = subprocess.Popen([program, "-c", conf], stderr=subprocess.DEVNULL)

        def listens():
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return True
            except ConnectionRefusedError:
                return False

        wait_for(listens)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(SECONDS)
        self.folder.cleanup()

    def open(self, path, body=None, headers=None):
        request = urllib.request.Request(self.url + path, body, headers or {})
        return urllib.request.urlopen(request, timeout=SECONDS, context=self.context)

    def ask(self, affinity, stream=False):
        body = json.dumps({"prompt": "Once", "max_tokens": 6, "stream": stream, "ignore_eos": True}).encode()
        return self.open("/v1/completions", body, {"Content-Type": "application/json", "X-Oort-Affinity": affinity})


class Asking:
    """Clients of many conversations that ask again and again, whole answers and streams."""

    def __init__(self, nginx):
        self.nginx, self.failures, self.answers, self.ended = nginx, [], 0, False
        self.threads = [threading.Thread(target=self.run, args=(i,)) for i in range(4)]

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.end()

    def run(self, client):
        turn = 0
        while not self.ended:
            turn += 1
            stream = turn % 2 == 0
            try:
                with self.nginx.ask(f"conversation {client + 4 * (turn % 8)}", stream) as answer:
                    text = answer.read()
                if stream and not text.endswith(b"data: [DONE]\n\n"):
                    self.failures.append(text[-200:])
            except OSError as failure:  # HTTP's errors are some of these
                self.failures.append(failure)
            self.answers += 1

    def wait_for_more(self, count):
        most = self.answers + count
        wait_for(lambda: self.answers >= most)

    def end(self):
        self.ended = True
        for thread in self.threads:
            thread.join()


if __name__ == "__main__":
    unittest.main()
