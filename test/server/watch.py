# SPDX-License-Identifier: MIT
"""What tests and measurements of a running server look at: its metrics, its memory, its descriptors."""
import http.client
import json
import os
import pathlib
import resource
import time
import urllib.parse
import urllib.request

SECONDS = 120  # to wait for what must come


def metrics(url, *names):
    """The sum of each metric's lines, all at one moment."""
    lines = urllib.request.urlopen(url + "/metrics", timeout=SECONDS).read().decode().splitlines()
    return [sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{")) for name in names]


def metric(url, name):
    return metrics(url, name)[0]


def wait_for(condition, pause=0.01):
    end = time.monotonic() + SECONDS
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not happen")
        time.sleep(pause)


def is_idle(url):
    return metrics(url, "oort:num_requests_running", "oort:num_requests_waiting") == [0, 0]


def ask_health(url):
    """Seconds that /health takes, in a list."""
    begin = time.monotonic()
    urllib.request.urlopen(url + "/health", timeout=SECONDS).close()
    return [time.monotonic() - begin]


def raise_file_limit(count):
    """Lets this process and its children open so many files, as far as it may."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, count)), hard))


def memory(pid):
    """Resident bytes."""
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def processor_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def address(url):
    parts = urllib.parse.urlsplit(url)
    return parts.hostname, parts.port


def request_bytes(body, path="/v1/completions"):
    data = json.dumps(body).encode()
    return (b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
            % (path.encode(), len(data))) + data


def open_stream(url, body):
    connection = http.client.HTTPConnection(*address(url), timeout=SECONDS)
    connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
    return connection


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0.0
