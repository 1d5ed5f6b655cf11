#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How the server is run: TLS, keys and certificates that change, the log that programs read."""
import http.client
import json
import pathlib
import re
import shutil
import signal
import socket
import ssl
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request
import warnings

from program_test import CHAT, post
from server import OORT, SECONDS, STORYTELLER, Server
from watch import wait_for

SECRET = "a prompt that no log may hold"


def certificate(folder, name):
    """A certificate for this machine that vouches for itself, and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
                    "-keyout", key, "-out", cert, "-days", "2", "-subj", f"/CN={name}",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    return cert, key


def has_tls(folder):
    cert, key = certificate(folder, "probe")
    done = subprocess.run([OORT, "serve", str(STORYTELLER), "--port", "0", "--host", "no.such.host", "--tls-cert", cert,
                           "--tls-key", key, "--allow-open"], capture_output=True, text=True, timeout=SECONDS)
    return "built without TLS" not in done.stderr


def read_lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class OperationTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)

    def status(self, url, key):
        try:
            with post(url, "/v1/chat/completions", CHAT, {"Authorization": "Bearer " + key}) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            error.close()
            return error.code

    def test_keys_are_read_anew(self):
        keys = self.folder / "keys"
        log = self.folder / "log"
        keys.write_text("one\ntwo\n")
        with Server("--api-key-file", keys, "--access-log", log, "--quiet") as server:
            self.assertEqual(self.status(server.url, "two"), 200)
            keys.write_text("three\ntwo\n")
            wait_for(lambda: self.status(server.url, "three") == 200)  # noticed without being told
            self.assertEqual(self.status(server.url, "one"), 401)
            self.assertEqual(self.status(server.url, "two"), 200)
            keys.write_text("")  # nobody is let in by a file that is being written
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "stay as they were" in server.process.stderr.readline())
            self.assertEqual(self.status(server.url, "two"), 200)
            self.assertEqual(self.status(server.url, ""), 401)
            keys.write_text("four\n")
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: self.status(server.url, "four") == 200)
            self.assertEqual(server.stop(), 0)
        answered = [line["key"] for line in read_lines(log) if line["status"] == 200]
        # A number is never given to another key: it keeps apart what the cache holds.
        self.assertEqual(answered[0], 2)
        self.assertEqual(set(answered), {2, 3, 4})

    def test_access_log(self):
        log = self.folder / "log"
        with Server("--quiet", "--access-log", log) as server:
            body = {**CHAT, "messages": [{"role": "user", "content": SECRET}]}
            post(server.url, "/v1/chat/completions", body, {"X-Request-Id": "123"}).read()
            for path in ("/health", "/none%22%0a?" + urllib.parse.quote(SECRET)):
                try:
                    urllib.request.urlopen(server.url + path, timeout=SECONDS).close()
                except urllib.error.HTTPError as error:
                    error.close()
            self.assertEqual(server.stop(), 0)
        lines = read_lines(log)
        self.assertEqual([line["path"] for line in lines], ["/v1/chat/completions", "/health", "/none%22%0a"])
        self.assertEqual([line["status"] for line in lines], [200, 200, 404])
        first = lines[0]
        self.assertEqual((first["request"], first["tokens"], first["cut"], first["method"]), ("123", 8, False, "POST"))
        self.assertGreater(first["prompt_tokens"], 8)
        self.assertRegex(first["time"], r"\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z\Z")
        self.assertNotIn(SECRET.split()[2], log.read_text())

    def test_a_log_that_nobody_reads(self):
        asked = 4000  # their lines are several times what a pipe holds
        with Server() as server:
            connection = http.client.HTTPConnection(urllib.parse.urlsplit(server.url).netloc, timeout=SECONDS)
            for _ in range(asked):
                connection.request("GET", "/health")
                with connection.getresponse() as answer:
                    self.assertEqual(answer.status, 200)
                    answer.read()
            connection.close()
            self.assertEqual(server.stop(), 0)
        self.assertEqual(sum(" GET /health 200 " in line for line in server.log), asked)

    def test_a_log_whose_reader_has_gone(self):
        with Server() as server:
            server.process.stderr.close()
            for _ in range(3):
                with urllib.request.urlopen(server.url + "/health", timeout=SECONDS) as answer:
                    self.assertEqual(answer.status, 200)

            def dropped():
                with urllib.request.urlopen(server.url + "/metrics", timeout=SECONDS) as answer:
                    return int(re.search(rb"\noort:log_lines_dropped_total\{.*\} (\d+)", answer.read())[1])

            wait_for(lambda: dropped() > 0)
            server.process.terminate()
            self.assertEqual(server.process.wait(SECONDS), 0)

    def test_a_log_that_cannot_be_written(self):
        done = subprocess.run([OORT, "serve", str(STORYTELLER), "--port", "0", "--access-log", str(self.folder)],
                              capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(done.returncode, 1)
        self.assertIn("access log", done.stderr)


@unittest.skipUnless(shutil.which("openssl"), "needs the program openssl to make certificates")
class TlsTest(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        if not has_tls(self.folder):
            self.skipTest("this build has no TLS")

    def context(self, cert):
        context = ssl.create_default_context(cafile=str(cert))
        context.set_alpn_protocols(["http/1.1"])
        return context

    def test_streams_and_whole_answers(self):
        cert, key = certificate(self.folder, "one")
        with Server("--tls-cert", cert, "--tls-key", key, "--quiet") as server:
            self.assertTrue(server.url.startswith("https://"))
            context = self.context(cert)
            for stream in (False, True):
                data = json.dumps({**CHAT, "stream": stream}).encode()
                request = urllib.request.Request(server.url + "/v1/chat/completions", data,
                                                 {"Content-Type": "application/json"})
                with urllib.request.urlopen(request, timeout=SECONDS, context=context) as answer:
                    text = answer.read()
                self.assertTrue(text.endswith(b"data: [DONE]\n\n") if stream else json.loads(text)["choices"])
            # A body of many records, one response after another on one connection.
            port = urllib.parse.urlsplit(server.url).port
            with socket.create_connection(("127.0.0.1", port)) as plain, \
                    context.wrap_socket(plain, server_hostname="127.0.0.1") as peer:
                self.assertEqual(peer.selected_alpn_protocol(), "http/1.1")
                body = json.dumps({"content": "fox " * 50000}).encode()
                for _ in range(2):
                    peer.sendall(b"POST /tokenize HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                 b"Content-Length: %d\r\n\r\n" % len(body) + body)
                    answer = b""
                    while b"\r\n\r\n" not in answer:
                        answer += peer.recv(65536)
                    head, _, rest = answer.partition(b"\r\n\r\n")
                    self.assertTrue(head.startswith(b"HTTP/1.1 "), head)
                    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                    while len(rest) < length:
                        rest += peer.recv(65536)
                    self.assertEqual(len(rest), length)
            self.assertEqual(server.stop(), 0)

    def test_who_speaks_no_tls_is_cut(self):
        cert, key = certificate(self.folder, "one")
        with Server("--tls-cert", cert, "--tls-key", key, "--quiet") as server:
            port = urllib.parse.urlsplit(server.url).port
            for bytes_sent in (b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 100,
                               b"\0" * 9):
                with socket.create_connection(("127.0.0.1", port), timeout=SECONDS) as peer:
                    peer.sendall(bytes_sent)
                    peer.shutdown(socket.SHUT_WR)
                    answer = b""
                    try:
                        while part := peer.recv(4096):
                            answer += part
                    except ConnectionResetError:
                        pass
                    self.assertNotIn(b"HTTP", answer)
            old = ssl.create_default_context(cafile=str(cert))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # that it is old is the point
                old.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
                old.maximum_version = ssl.TLSVersion.TLSv1_1
            with socket.create_connection(("127.0.0.1", port),
                                          timeout=SECONDS) as plain, self.assertRaises(ssl.SSLError):
                old.wrap_socket(plain, server_hostname="127.0.0.1")
            health = urllib.request.urlopen(server.url + "/health", timeout=SECONDS, context=self.context(cert))
            self.assertEqual(health.status, 200)
            health.close()

    def test_a_new_certificate_is_taken(self):
        cert, key = certificate(self.folder, "one")
        with Server("--tls-cert", cert, "--tls-key", key, "--quiet") as server:
            port = urllib.parse.urlsplit(server.url).port

            def shown():
                return ssl.get_server_certificate(("127.0.0.1", port), timeout=SECONDS).split()

            before = cert.read_text().split()
            self.assertEqual(shown(), before)
            other, other_key = certificate(self.folder, "two")
            cert.write_text(other.read_text())  # for a moment the two do not go together
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: "stay as they were" in server.process.stderr.readline())
            self.assertEqual(shown(), before)
            key.write_text(other_key.read_text())
            server.process.send_signal(signal.SIGHUP)
            wait_for(lambda: shown() == other.read_text().split())

    def test_a_wrong_start_is_one_line(self):
        cert, key = certificate(self.folder, "one")
        _, other = certificate(self.folder, "two")
        for arguments, code, says in (
            (["--tls-cert", cert], 2, "--tls-key"),
            (["--tls-cert", key, "--tls-key", key], 1, str(key)),
            (["--tls-cert", cert, "--tls-key", other], 1, str(other)),
        ):
            done = subprocess.run([OORT, "serve", str(STORYTELLER), "--port", "0", *map(str, arguments)],
                                  capture_output=True, text=True, timeout=SECONDS)
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertRegex(done.stderr, r"\Aoort: [^\n]+\n\Z")
            self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main()
