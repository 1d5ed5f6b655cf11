// SPDX-License-Identifier: MIT
// The script of the chat page on a document of its own making: what a stream becomes on the screen.
//   node page_test.js chat.html
"use strict";
const assert = require("node:assert");
const fs = require("node:fs");
const vm = require("node:vm");

// As much of a document as the page uses. There is no innerHTML: a page that set it would show nothing.
class Node {
  constructor(name) {
    Object.assign(this, { localName: name, nodes: [], dataset: {}, value: "", hidden: false, scrollHeight: 0,
      scrollTop: 0, clientHeight: 0 });
  }
  append(...nodes) {
    for (const node of nodes) this.nodes.push(...(node.localName === "#fragment" ? node.nodes : [node]));
  }
  appendChild(node) { this.append(node); return node; }
  replaceChildren(...nodes) { this.nodes = []; this.append(...nodes); }
  get children() { return this.nodes.filter((node) => node instanceof Node); }
  get childElementCount() { return this.children.length; }
  get firstChild() { return this.nodes[0]; }
  get lastChild() { return this.nodes[this.nodes.length - 1]; }
  get textContent() { return this.nodes.map((node) => node.textContent ?? String(node)).join(""); }
  set textContent(text) { this.nodes = [String(text)]; }
  setAttribute() {}
  focus() {}
  html() {
    const inner = this.nodes.map((node) => (node instanceof Node ? node.html() : String(node).replaceAll("<", "&lt;")));
    return `<${this.localName}>${inner.join("")}</${this.localName}>`;
  }
}

/// The page, with a server that answers each request by the next of `answers`.
function open(answers) {
  const byId = new Map();
  const requests = [];
  const world = {
    document: {
      createElement: (name) => new Node(name),
      createDocumentFragment: () => new Node("#fragment"),
      getElementById: (id) => byId.get(id) ?? byId.set(id, new Node(id)).get(id),
      documentElement: new Node("html"),
      addEventListener() {},
    },
    localStorage: { getItem: () => null, setItem() {} },
    matchMedia: () => ({ matches: false }),
    performance, TextDecoder, AbortController, console,
    setTimeout: () => 0,
    requestAnimationFrame: (draw) => draw(),
    async fetch(url, options) {
      requests.push({ url, body: options.body && JSON.parse(options.body), headers: options.headers });
      if (url === "v1/models") return new Response(JSON.stringify({ data: [{ id: "m", max_model_len: 512 }] }));
      return answers.shift();
    },
  };
  const script = fs.readFileSync(process.argv[2], "utf8").split("<script>")[1].split("</script>")[0];
  vm.runInNewContext(script + "\nglobalThis.page = { send, markdown, messages: () => current.messages };", world);
  return { ...world.page, requests, at: world.document.getElementById };
}

/// A stream whose bytes come in parts of `size`, wherever that cuts events and characters.
function stream(events, size) {
  const bytes = new TextEncoder().encode(events.map((event) => `data: ${event}\n\n`).join(""));
  return new Response(new ReadableStream({
    start(controller) {
      for (let i = 0; i < bytes.length; i += size) controller.enqueue(bytes.slice(i, i + size));
      controller.close();
    },
  }));
}

const delta = (content) => JSON.stringify({ choices: [{ delta: { content } }] });
const usage = JSON.stringify({ choices: [], usage: { completion_tokens: 3, total_tokens: 9 } });
const settled = () => new Promise((resolve) => setTimeout(resolve, 20));

async function ask(page, text) {
  page.at("text").value = text;
  page.send();
  for (let i = 0; i < 500 && page.at("send").hidden; ++i) await settled();
  return page.messages().at(-1);
}

async function main() {
  for (const size of [1, 7, 100000]) {
    const text = "Grüße 😀 **you** <img src=x onerror=alert(1)>\n\n```py\na = b.__init__\n```\n- one\n- two";
    const page = open([stream([delta(text.slice(0, 9)), delta(text.slice(9)), usage, "[DONE]"], size)]);
    const answer = await ask(page, "Hi");
    assert.equal(answer.content, text);
    assert.match(answer.facts, /^3 tokens, .* 9 of 512 in use$/);
    const shown = page.at("talk").lastChild.html();
    assert.ok(shown.includes("<strong>you</strong> &lt;img src=x onerror=alert(1)>"), shown);
    assert.ok(shown.includes("<code>a = b.__init__</code>"), shown);
    assert.ok(shown.includes("<ul><li>one</li><li>two</li></ul>"), shown);
    const asked = page.requests.find((request) => request.url === "v1/chat/completions");
    assert.deepEqual(asked.body.messages, [{ role: "user", content: "Hi" }]);
    assert.equal(asked.body.stream, true);
    assert.equal(page.at("model").textContent, "m");
  }

  const error = (status) => new Response(JSON.stringify({ error: { message: "the reason" } }), { status });
  assert.match((await ask(open([error(401)]), "Hi")).error, /API key/);
  assert.match((await ask(open([error(400)]), "Hi")).error, /the reason/);
  const failed = stream([delta("a"), JSON.stringify({ error: { message: "in the middle" } })], 9);
  assert.match((await ask(open([failed]), "Hi")).error, /in the middle/);
  assert.match((await ask(open([stream([delta("a")], 9)]), "Hi")).error, /lost/);

  const root = new Node("root");
  root.append(open([]).markdown("# Head\n\n[no](javascript:alert(1)) [yes](https://a.b) `*x*`\n\n```\nopen"));
  assert.equal(root.html(), "<root><h3>Head</h3><p>[no](javascript:alert(1)) <a>yes</a> <code>*x*</code></p>" +
    "<div><button>Copy code</button><pre><code>open</code></pre></div></root>");
}

main().catch((error) => { console.error(error); process.exit(1); });
