// Keys of the page and of the view that is shown, and the list of them.
import { h, put } from "./dom.js";

const LABELS = { ArrowDown: "\u2193", ArrowUp: "\u2191", ArrowLeft: "\u2190", ArrowRight: "\u2192", Escape: "esc", Enter: "enter", " ": "space" };

// A key is { keys: ["j", "ArrowDown"], what: "next episode", act, plain: true where it also works in a field }.
let everywhere = [];
let here = [];
const dialog = h("dialog", { "aria-label": "Keys" });

export function setGlobalKeys(keys) {
  everywhere = keys;
}

export function setViewKeys(keys) {
  here = keys ?? [];
}

function rows(keys) {
  return keys.map(({ keys: names, what }) => [
    h("dt", {}, names.map((name) => h("kbd", {}, LABELS[name] ?? name))), h("dd", {}, what)]);
}

export function showHelp() {
  put(dialog, h("h2", {}, "Keys"), here.length ? [h("h3", {}, "On this page"), h("dl", { class: "keys" }, rows(here))] : null,
    h("h3", {}, "Everywhere"), h("dl", { class: "keys" }, rows(everywhere)),
    h("form", { method: "dialog", class: "toolbar" }, h("button", { class: "button" }, "Close")));
  dialog.lastChild.style.setProperty("margin", "16px 0 0");
  if (!dialog.isConnected) document.body.append(dialog);
  dialog.showModal();
}

const isField = (element) => element instanceof HTMLInputElement && !["radio", "checkbox"].includes(element.type)
  || element instanceof HTMLSelectElement || element instanceof HTMLTextAreaElement;

// Elements that know what these keys do for them.
const handles = (element, key) => (key === "Enter" || key === " ") && element.closest("a, button, summary, input, select, [data-own-keys]")
  || key.startsWith("Arrow") && element.closest("input[type=radio], [data-own-keys]");

function press(event) {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || dialog.open) return;
  const target = event.target instanceof Element ? event.target : document.body;
  if (isField(target)) {
    if (event.key === "Escape") {
      target.blur();
      document.querySelector("[data-list]")?.focus();
      event.preventDefault();
    }
    return;
  }
  if (handles(target, event.key)) return;
  const found = [...here, ...everywhere].find(({ keys }) => keys.includes(event.key));
  if (!found) return;
  event.preventDefault();
  found.act(event);
}

export const listen = () => addEventListener("keydown", press);
