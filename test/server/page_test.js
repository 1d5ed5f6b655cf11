// SPDX-License-Identifier: MIT
// The scripts of the pages on a document of their own making: what a stream becomes on the screen, and what a model of pictures
// is asked and answers.
//   node page_test.js source/serve/page
"use strict";
const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
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

/// A picture becomes a URL that tells what was drawn.
class Canvas extends Node {
  constructor() { super("canvas"); }
  getContext() {
    return { fillRect() {}, drawImage: (bitmap, x, y, w, h) => { this.drawn = `${bitmap.name}:${w}x${h}`; } };
  }
  toDataURL(type) { return `data:${type};base64,${this.drawn}`; }
}

/// The script of a page with what it has in common with others, as the build puts them together.
function scriptOf(name) {
  const read = (file) => fs.readFileSync(path.join(process.argv[2], file), "utf8");
  return read(name).split("<script>")[1].split("</script>")[0].replace("// common.js", () => read("common.js"));
}

/// The page, with a server that answers each request by the next of `answers`. `about`: more of its model.
function open(answers, about = {}) {
  const byId = new Map(), listeners = new Map();
  const requests = [];
  const world = {
    document: {
      createElement: (name) => (name === "canvas" ? new Canvas() : new Node(name)),
      createDocumentFragment: () => new Node("#fragment"),
      getElementById: (id) => byId.get(id) ?? byId.set(id, new Node(id)).get(id),
      documentElement: new Node("html"),
      addEventListener(kind, act) { listeners.set(kind, act); },
    },
    localStorage: { getItem: () => null, setItem() {} },
    matchMedia: () => ({ matches: false }),
    createImageBitmap: async (file) => { if (!file.width) throw new Error("no picture"); return file; },
    performance, TextDecoder, AbortController, console,
    setTimeout: () => 0,
    requestAnimationFrame: (draw) => draw(),
    async fetch(url, options) {
      requests.push({ url, body: options.body && JSON.parse(options.body), headers: options.headers });
      if (url === "v1/models") return new Response(JSON.stringify({ data: [{ id: "m", max_model_len: 512, ...about }] }));
      return answers.shift();
    },
  };
  vm.runInNewContext(scriptOf("chat.html") + "\nglobalThis.page = { send, take, edit, markdown, messages: () => current.messages };", world);
  return { ...world.page, requests, listeners, at: world.document.getElementById };
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

/// The functions of the page for pictures, whose server has no networks.
function openImages() {
  const nodes = new Map();
  const world = {
    document: {
      createElement: (name) => new Node(name),
      getElementById: (id) => nodes.get(id) ?? nodes.set(id, new Node(id)).get(id),
      documentElement: new Node("html"),
      addEventListener() {},
    },
    localStorage: { getItem: () => null, setItem() {} },
    matchMedia: () => ({ matches: false }),
    fetch: async () => new Response("[]"),
    TextEncoder, TextDecoder, performance, console,
  };
  const names = "layout, placement, numbers, question, firstTensor, best, boxes";
  vm.runInNewContext(scriptOf("images.html") + `\nglobalThis.page = { ${names} };`, world);
  return { ...world.page, at: world.document.getElementById };
}

const plain = (value) => JSON.parse(JSON.stringify(value));   // objects of the page have another prototype

async function testImages() {
  const page = openImages();
  await settled();
  assert.match(page.at("state").textContent, /--graph/);

  const input = (shape, datatype = "FP32") => page.layout({ name: "x", shape, datatype });
  assert.deepEqual(plain(input([-1, 3, 2, 4])), { channels: 3, height: 2, width: 4, last: false });
  assert.deepEqual(plain(input([1, 28, 28])), { channels: 1, height: 28, width: 28, last: false });
  assert.deepEqual(plain(input([1, 8, 9, 3], "UINT8")), { channels: 3, height: 8, width: 9, last: true });
  for (const shape of [[1, 16], [1, 5, 8, 8], [1, 3, -1, 8], []]) assert.equal(input(shape), null);
  assert.equal(input([1, 3, 8, 8], "INT64"), null);

  // A picture of 200 × 100 pixels for a model of 50 × 50.
  const form = { channels: 3, height: 50, width: 50, last: false };
  assert.deepEqual(plain(page.placement(200, 100, form, "stretch")), { x: 0.25, y: 0.5, left: 0, top: 0 });
  assert.deepEqual(plain(page.placement(200, 100, form, "crop")), { x: 0.5, y: 0.5, left: -25, top: 0 });
  assert.deepEqual(plain(page.placement(200, 100, form, "whole")), { x: 0.25, y: 0.25, left: 0, top: 12.5 });

  const rgba = [255, 0, 51, 255, 0, 255, 102, 255];
  const two = { channels: 3, height: 1, width: 2, last: false };
  const values = (...rest) => Array.from(page.numbers(rgba, ...rest), (x) => Number(x.toFixed(3)));
  assert.deepEqual(values(two, "FP32", "unit", false), [1, 0, 0, 1, 0.2, 0.4]);
  assert.deepEqual(values(two, "FP32", "unit", true), [0, 1, 1, 0, 0.8, 0.6]);
  assert.deepEqual(values({ ...two, last: true }, "FP32", "signed", false), [1, -1, -0.6, -1, 1, -0.2]);
  assert.deepEqual(values(two, "UINT8", "imagenet", false), [255, 0, 0, 255, 51, 102]);
  assert.deepEqual(values({ ...two, channels: 1 }, "FP32", "bytes", false), [82.059, 161.313]);

  const { body, length } = page.question({ name: "x", shape: [-1, 1, 1, 2], datatype: "FP32" }, new Float32Array([1, 2]));
  const json = JSON.parse(new TextDecoder().decode(body.slice(0, length)));
  assert.deepEqual(json.inputs, [{ name: "x", datatype: "FP32", shape: [1, 1, 1, 2], parameters: { binary_data_size: 8 } }]);
  assert.equal(json.parameters.binary_data_output, true);
  assert.deepEqual([...new Float32Array(body.slice(length).buffer)], [1, 2]);

  const output = { outputs: [{ name: "y", datatype: "FP32", shape: [1, 2], parameters: { binary_data_size: 8 } }] };
  const head = new TextEncoder().encode(JSON.stringify(output));
  const answer = new Uint8Array(head.length + 8);
  answer.set(head);
  answer.set(new Uint8Array(new Float32Array([3, 4]).buffer), head.length);
  assert.deepEqual([...page.firstTensor(answer.buffer, head.length).data], [3, 4]);

  assert.deepEqual(plain(page.best([0.25, 0.5, 0.25])).map(({ index }) => index), [1, 0, 2]);
  const guesses = page.best([0, Math.log(3), -Infinity]);
  assert.ok(Math.abs(guesses[0].share - 0.75) < 1e-6 && guesses[0].index === 1);

  // Two boxes of one thing, one of another class in the same place, and one with too low a score.
  const rows = [[50, 50, 20, 10, 0.9, 0.1, 1], [51, 50, 20, 10, 0.8, 0.1, 1], [50, 50, 20, 10, 0.7, 1, 0], [9, 9, 4, 4, 0.2, 1, 1],
    [5, 5, 2, 2, 0.1, 1, 1], [5, 5, 2, 2, 0, 1, 1], [5, 5, 2, 2, NaN, 1, 1], [5, 5, NaN, 2, 1, 1, 1]];
  const found = plain(page.boxes({ shape: [1, 8, 7], data: rows.flat() }, 0.25));
  assert.deepEqual(found.map(({ index, share, left, bottom }) => [index, share, left, bottom]), [[1, 0.9, 40, 55], [0, 0.7, 40, 55]]);
  // The same as columns, which have no score of their own.
  const columns = [0, 1, 2, 3, 5, 6].map((i) => rows.map((row) => (i > 4 ? row[i] * row[4] || 0 : row[i])));
  assert.deepEqual(plain(page.boxes({ shape: [1, 6, 8], data: columns.flat() }, 0.25)).slice(0, 2), found);
}

/// Pictures of a message, from a file, the clipboard and a drop.
async function testPictures() {
  const answers = ["seen", "again"].map((text) => stream([delta(text), "[DONE]"], 9));
  const page = open(answers, { input_modalities: ["text", "image"] });
  await settled();
  assert.equal(page.at("attach").hidden, false);
  await page.take([{ name: "a", width: 100, height: 50 }, { name: "none" }]);
  assert.match(page.at("state").textContent, /no picture/);
  let stopped = 0;
  const event = (field, files) => ({ [field]: { files }, preventDefault() { ++stopped; } });
  page.listeners.get("paste")(event("clipboardData", [{ name: "b", width: 3072, height: 1536 }]));
  page.listeners.get("drop")(event("dataTransfer", [{ name: "c", width: 9, height: 4 }]));
  page.listeners.get("paste")(event("clipboardData", []));   // text
  await settled();
  assert.equal(stopped, 2);
  assert.equal(page.at("shown").childElementCount, 3);
  page.at("shown").children[2].children[1].onclick();
  const urls = ["data:image/png;base64,a:100x50", "data:image/jpeg;base64,b:1536x768"];
  assert.equal((await ask(page, "What?")).content, "seen");
  const asked = () => page.requests.filter((request) => request.url === "v1/chat/completions").at(-1).body.messages;
  const parts = [...urls.map((url) => ({ type: "image_url", image_url: { url } })), { type: "text", text: "What?" }];
  assert.deepEqual(asked(), [{ role: "user", content: parts }]);
  assert.equal(page.at("shown").childElementCount, 0);
  assert.ok(page.at("talk").firstChild.html().includes("<div><img></img><img></img></div>"));
  // Who goes on sends them again.
  await ask(page, "And now?");
  assert.deepEqual(asked()[0].content, parts);
  assert.equal(asked()[2].content, "And now?");
  page.edit(0);
  assert.equal(page.at("shown").childElementCount, 2);

  const blind = open([], { input_modalities: ["text"] });
  await settled();
  assert.equal(blind.at("attach").hidden, true);
  await blind.take([{ name: "a", width: 100, height: 50 }]);
  assert.match(blind.at("state").textContent, /reads no pictures/);
  assert.equal(blind.at("shown").childElementCount, 0);
}

async function main() {
  await testImages();
  await testPictures();
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

  const shown = (text) => {
    const node = new Node("root");
    node.append(open([]).markdown(text));
    return node.html().slice(6, -7);
  };
  assert.equal(shown("a | b\n--- | :-:\n1 | `x \\| y`\n| 2 | <b> |\n\nEnd"),
    "<div><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td><code>x | y</code></td></tr>" +
    "<tr><td>2</td><td>&lt;b></td></tr></tbody></table></div><p>End</p>");
  assert.equal(shown("a | b\nno table"), "<p>a | b\nno table</p>");
  assert.equal(shown("- a\n  - b\n    1. c\n- d\n\n- e\n1. f"),
    "<ul><li>a<ul><li>b<ol><li>c</li></ol></li></ul></li><li>d</li><li>e</li></ul><ol><li>f</li></ol>");
  assert.equal(shown("1. a\n   more\n\n   - b\n\nEnd"), "<ol><li>a\nmore<ul><li>b</li></ul></li></ol><p>End</p>");
}

main().catch((error) => { console.error(error); process.exit(1); });
