#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The pages in a real browser: Debian's chromium by Playwright, checked by axe. Exits 77 where one of them is missing.

  test/server/browser_test.py --screenshots FOLDER     writes the pictures of the docs instead
"""
import json
import pathlib
import shutil
import struct
import sys
import unittest
import urllib.request

from server import SOURCE, Server, go_on_in

go_on_in("openai")

try:
    from axe_playwright_python.sync_playwright import Axe
    from playwright.sync_api import expect, sync_playwright
except ImportError:
    print("skipped: pip install -r test/server/requirements.txt (playwright, axe-playwright-python)")
    sys.exit(77)
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    print("skipped: no chromium (Debian: apt-get install chromium)")
    sys.exit(77)

from watch import metric, wait_for  # noqa: E402

MILLISECONDS = 60_000
PATHS = ("/", "/dashboard", "/images")
WICKED = ('<img src=x onerror="window.harmed=1"><script>window.harmed=1</script> **bold** `__init__` '
          "[link](javascript:window.harmed=1) ![p](http://example.org/p.png)\n\n```\n**not bold** <b>\n```\n")


def launch(play):
    return play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-dev-shm-usage"])


def stream_of(*texts):
    """An answer as the server would stream it."""
    events = [{"choices": [{"index": 0, "delta": {"content": text}}]} for text in texts]
    events.append({"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": len(texts), "total_tokens": 9}})
    return "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"


def wait_until(page, expression):
    """Playwright's own waits evaluate text in the page, which its policy forbids."""
    wait_for(lambda: page.evaluate(expression))


class BrowserTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server("--quiet", "--graph", f"digits={SOURCE / 'models/digits'}").__enter__()
        cls.play = sync_playwright().start()
        cls.browser = launch(cls.play)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.play.stop()
        cls.server.__exit__()

    def setUp(self):
        self.context = self.browser.new_context(color_scheme="light")
        self.addCleanup(self.context.close)
        self.page = self.context.new_page()
        self.page.set_default_timeout(MILLISECONDS)
        self.asked, self.problems = [], []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("console", lambda message: self.problems.append(message.text) if message.type == "error" else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))

    def open(self, path="/"):
        self.page.goto(self.server.url + path)
        if path == "/":
            expect(self.page.locator("#model")).to_have_text("storyteller", timeout=MILLISECONDS)

    def send(self, text, tokens=12):
        self.page.evaluate("most => { options.most = String(most); }", tokens)
        self.page.get_by_label("Message", exact=True).fill(text)
        self.page.keyboard.press("Enter")

    def until(self, expression):
        wait_until(self.page, expression)

    def facts(self, count=1):
        expect(self.page.locator("article .facts")).to_have_count(count, timeout=MILLISECONDS)

    def answer_with(self, body, status=200, headers=None):
        fields = {"Content-Type": "text/event-stream", **(headers or {})}
        self.page.route("**/v1/chat/completions", lambda route: route.fulfill(status=status, body=body, headers=fields))

    def test_send_regenerate_edit_and_reload(self):
        self.open()
        self.send("Tell me a story about a fox.")
        self.facts()
        self.assertRegex(self.page.locator("article .facts").inner_text(),
                         r"\A\d+ tokens, \d+/s, first after \d+ ms, \d+ of \d+ in use")
        self.page.get_by_role("button", name="Regenerate").click()
        self.facts()
        self.page.reload()
        expect(self.page.locator("article")).to_have_count(2)
        self.page.get_by_role("button", name="Edit").click()
        expect(self.page.get_by_label("Message", exact=True)).to_have_value("Tell me a story about a fox.")
        expect(self.page.locator("article")).to_have_count(0)
        self.assertEqual(self.problems, [])

    def test_stop_stops_the_server(self):
        self.open()
        self.send("Tell me a story.", tokens=100_000)
        self.until("document.querySelectorAll('article').length === 2 && current.messages[1].content !== ''")
        self.page.keyboard.press("Escape")
        expect(self.page.get_by_role("button", name="Send")).to_be_visible(timeout=MILLISECONDS)
        wait_for(lambda: metric(self.server.url, "oort:num_requests_running") == 0)

    def test_text_of_a_model_stays_text(self):
        self.open()
        self.answer_with(stream_of(WICKED[:50], WICKED[50:]))
        self.send("Be wicked.")
        self.facts()
        article = self.page.locator("article.assistant")
        self.assertEqual(article.locator("img, script, b").count(), 0)
        self.assertEqual(article.locator("strong").all_inner_texts(), ["bold"])
        self.assertIn("__init__", article.locator("code").all_inner_texts())
        self.assertIn("**not bold** <b>", article.locator("pre").inner_text())
        # A picture is a link at most: nothing is loaded that could tell who reads.
        links = article.locator("a").evaluate_all("nodes => nodes.map((node) => node.href)")
        self.assertEqual(links, ["http://example.org/p.png"])
        self.assertIsNone(self.page.evaluate("window.harmed ?? null"))
        self.assertEqual(self.problems, [])

    def test_what_the_server_refuses_is_said(self):
        for status, says in ((401, "API key"), (400, "too long"), (500, "too long")):
            with self.subTest(status):
                self.page.unroute_all()
                self.open()
                self.answer_with(json.dumps({"error": {"message": "the prompt is too long"}}), status)
                self.page.get_by_role("button", name="New chat").click()
                self.send("Hello")
                expect(self.page.locator("article .error").last).to_contain_text(says, timeout=MILLISECONDS)
        self.page.unroute_all()
        self.answer_with(json.dumps({"error": {"message": "busy"}}), 429, {"Retry-After": "30"})
        self.page.get_by_role("button", name="New chat").click()
        self.send("Hello")
        expect(self.page.locator("#state")).to_contain_text("Tries again in", timeout=MILLISECONDS)

    def test_a_stream_that_breaks_off_is_said(self):
        self.open()
        self.answer_with(stream_of("Once").split("data: [DONE]")[0])
        self.send("Hello")
        expect(self.page.locator("article .error")).to_contain_text("lost", timeout=MILLISECONDS)
        expect(self.page.locator("article.assistant")).to_contain_text("Once")

    def test_keyboard_alone(self):
        self.open()
        for name in ("New chat", "Settings", "Dashboard", "Dark"):
            self.page.get_by_role("link" if name == "Dashboard" else "button", name=name).focus()
            outline = self.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
            self.assertTrue(outline)
        self.page.get_by_role("button", name="Settings").focus()
        self.page.keyboard.press("Enter")
        expect(self.page.get_by_label("System prompt")).to_be_visible()
        self.page.keyboard.press("Escape")
        expect(self.page.get_by_label("System prompt")).to_be_hidden()
        self.page.get_by_label("Message", exact=True).focus()
        self.page.keyboard.type("one")
        self.page.keyboard.press("Shift+Enter")
        self.page.keyboard.type("two")
        expect(self.page.get_by_label("Message", exact=True)).to_have_value("one\ntwo")

    def test_nothing_is_asked_elsewhere(self):
        for path in PATHS:
            self.open(path)
            self.page.wait_for_timeout(500)
        self.assertTrue(self.asked)
        for url in self.asked:
            self.assertTrue(url.startswith((self.server.url, "data:")), url)
        self.assertEqual(self.problems, [])

    def test_the_dashboard_shows_what_happens(self):
        self.open("/dashboard")
        self.until("before !== null")
        body = json.dumps({"prompt": "Once", "max_tokens": 8, "ignore_eos": True}).encode()
        request = urllib.request.Request(self.server.url + "/v1/completions", body,
                                         {"Content-Type": "application/json"})
        urllib.request.urlopen(request).read()
        self.until("PLOTS[0].data[0].some((rate) => rate > 0)")
        self.until("PLOTS[3].data[0].some((time) => time > 0)")
        self.assertEqual(self.page.locator("figure svg polyline").count(), 12)
        total = self.page.locator("#totals div", has_text="Tokens written").locator("dd").inner_text()
        self.assertNotIn(total, ("0", "–"))
        self.assertEqual(self.problems, [])

    def choose_picture(self, file):
        self.page.get_by_label("Drop a picture here").set_input_files(file)

    def test_a_picture_gets_its_label(self):
        self.open("/images")
        self.choose_picture(SOURCE / "models/digits/samples/digit-3.png")
        expect(self.page.locator("#results li")).to_have_count(5, timeout=MILLISECONDS)
        expect(self.page.locator("#results li").first).to_contain_text("class 3")
        expect(self.page.get_by_role("status")).to_contain_text("class 3")
        expect(self.page.get_by_role("img")).to_have_attribute("aria-label", "The picture digit-3.png")
        widths = self.page.locator("#results .bar").evaluate_all("nodes => nodes.map((node) => node.offsetWidth)")
        self.assertEqual(widths, sorted(widths, reverse=True))
        names = {"name": "names.txt", "mimeType": "text/plain", "buffer": b"zero\none\ntwo\n<b>three</b>\n"}
        self.page.get_by_label("Names of classes").set_input_files(names)
        expect(self.page.locator("#results li").first).to_contain_text("<b>three</b>", timeout=MILLISECONDS)
        self.choose_picture({"name": "no.png", "mimeType": "image/png", "buffer": b"no picture"})
        expect(self.page.get_by_role("status")).to_contain_text("no picture", timeout=MILLISECONDS)
        self.assertEqual(self.problems, [])

    def test_a_detector_gets_boxes(self):
        self.open("/images")
        self.until("about !== null")
        rows = [14, 14, 10, 6, 0.9, 1.0] + 6 * 9 * [0.0]
        output = [{"name": "out0", "datatype": "FP32", "shape": [1, 10, 6], "parameters": {"binary_data_size": 240}}]
        head = json.dumps({"outputs": output}).encode()
        self.page.route("**/infer", lambda route: route.fulfill(
            body=head + struct.pack("<60f", *rows), headers={"Inference-Header-Content-Length": str(len(head))}))
        self.choose_picture(SOURCE / "models/digits/samples/digit-3.png")
        expect(self.page.get_by_role("img")).to_have_attribute(
            "aria-label", "The picture digit-3.png, with 1 boxes", timeout=MILLISECONDS)
        expect(self.page.locator("#results li")).to_contain_text("90.0 %")

    def test_what_a_network_refuses_is_said(self):
        self.open("/images")
        self.until("about !== null")
        self.page.route("**/infer", lambda route: route.fulfill(status=503, body='{"error": "no room"}'))
        self.choose_picture(SOURCE / "models/digits/samples/digit-3.png")
        expect(self.page.get_by_role("status")).to_contain_text("no room", timeout=MILLISECONDS)

    def test_axe_finds_nothing(self):
        for path in PATHS:
            for scheme in ("light", "dark"):
                with self.subTest(path=path, scheme=scheme):
                    # axe is put into the page, which its policy forbids to everybody else.
                    context = self.browser.new_context(color_scheme=scheme, bypass_csp=True)
                    self.addCleanup(context.close)
                    self.page = context.new_page()
                    self.page.set_default_timeout(MILLISECONDS)
                    self.open(path)
                    if path == "/":
                        self.send("Tell me a story.")
                        self.facts()
                    elif path == "/images":
                        self.choose_picture(SOURCE / "models/digits/samples/digit-3.png")
                        expect(self.page.locator("#results li")).to_have_count(5, timeout=MILLISECONDS)
                    else:
                        self.until("PLOTS[0].data[0].length > 0")
                    found = Axe().run(self.page)
                    self.assertEqual(found.violations_count, 0, found.generate_report())

    def test_narrow_screens_do_not_scroll_sideways(self):
        self.page.set_viewport_size({"width": 320, "height": 600})
        for path in PATHS:
            self.open(path)
            self.assertLessEqual(self.page.evaluate("document.documentElement.scrollWidth"), 320)


def take_screenshots(folder):
    folder = pathlib.Path(folder)
    with Server("--quiet") as server, sync_playwright() as play:
        browser = launch(play)
        for scheme in ("light", "dark"):
            context = browser.new_context(color_scheme=scheme, viewport={"width": 900, "height": 560})
            page = context.new_page()
            page.set_default_timeout(MILLISECONDS)
            page.goto(server.url)
            wait_until(page, "document.querySelector('#model').textContent !== ''")
            page.evaluate("options.temperature = '0'; options.most = '120';")
            page.get_by_label("Message", exact=True).fill("Tell me a story about a fox.")
            page.keyboard.press("Enter")
            page.wait_for_selector("article .facts")
            page.screenshot(path=folder / f"serve-chat-{scheme}.png")
            page.set_viewport_size({"width": 900, "height": 860})
            page.goto(server.url + "/dashboard")
            page.wait_for_timeout(2500)
            for i in range(24):
                page.evaluate("""i => Promise.all([...Array(1 + i % 3).keys()].map((k) => fetch("v1/completions", {
                    method: "POST",
                    headers: { "Content-Type": "application/json" },
                    body: JSON.stringify({ prompt: "Once " + i + k, max_tokens: 200, ignore_eos: true, stream: true })
                }).then((r) => r.text())))""", i)
            page.wait_for_timeout(2500)
            page.screenshot(path=folder / f"serve-dashboard-{scheme}.png")
        browser.close()


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--screenshots":
        take_screenshots(sys.argv[2])
    else:
        unittest.main()
