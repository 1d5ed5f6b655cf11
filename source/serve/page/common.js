"use strict";
const $ = (id) => document.getElementById(id);
const make = (name, props = {}, ...children) => {
  const node = Object.assign(document.createElement(name), props);
  node.append(...children);
  return node;
};

// What is kept in this browser.
const store = {
  read(name, otherwise) {
    try { return JSON.parse(localStorage.getItem("oort." + name)) ?? otherwise; } catch { return otherwise; }
  },
  write(name, value) {
    try { localStorage.setItem("oort." + name, JSON.stringify(value)); return true; } catch { return false; }
  },
};
let key = store.read("key", "");
const authorization = () => (key ? { Authorization: "Bearer " + key } : {});

function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").setAttribute("aria-pressed", String(dark));
}
$("theme").onclick = () => {
  const dark = document.documentElement.dataset.theme !== "dark";
  setTheme(dark);
  store.write("dark", dark);
};
setTheme(store.read("dark", matchMedia("(prefers-color-scheme: dark)").matches));
