// Elements without HTML strings: every text becomes a text node.
import { visible } from "./text.js";

const SVG = "http://www.w3.org/2000/svg";

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "style") for (const [key, text] of Object.entries(value)) element.style.setProperty(key, text);
    else if (name === "checked" || name === "open" || name === "value" || name === "disabled") element[name] = value;
    else element.setAttribute(name, value === true ? "" : visible(String(value)));
  }
  add(element, children);
  return element;
}

function add(element, children) {
  for (const child of children) {
    if (Array.isArray(child)) add(element, child);
    else if (child instanceof Node) element.append(child);
    else if (child !== null && child !== undefined && child !== false) element.append(visible(String(child)));
  }
}

// Return an HTML element; strings among the children are shown as plain text.
export const h = (tag, properties, ...children) => fill(document.createElement(tag), properties, children);

// Return an SVG element.
export const svg = (tag, properties, ...children) => fill(document.createElementNS(SVG, tag), properties, children);

// Replace everything inside the element.
export function put(element, ...children) {
  element.replaceChildren();
  add(element, children);
  return element;
}

// Return text that may be as long as it likes, with a button where it is cut.
export function longText(text, { most = 4000, cut = 0, className = "" } = {}) {
  const box = h("div", { class: `text ${className}`, dir: "ltr" });
  const show = (limit) => {
    const rest = text.length - limit;
    put(box, rest > 0 ? whole(text, limit) : text);
    if (rest > 0) {
      box.append(h("button", { class: "more", type: "button", on: { click: () => show(text.length) } },
        `show all (${rest.toLocaleString("en")} more characters)`));
    }
    if (rest <= 0 && cut > 0) box.append(h("span", { class: "more" }, `${cut.toLocaleString("en")} more characters are in the file`));
  };
  show(most);
  return box;
}

// Do not cut a surrogate pair in two.
function whole(text, limit) {
  const last = text.charCodeAt(limit - 1);
  return text.slice(0, last >= 0xd800 && last < 0xdc00 ? limit - 1 : limit);
}
