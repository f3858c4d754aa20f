// A completion as shaded tokens, with the numbers of the token under the pointer or the arrow keys.
import { h, put } from "./dom.js";
import { classOf, facts } from "./shade.js";

const MOST = 3000; // tokens that are drawn before a button draws the rest

const tip = h("div", { class: "tip", hidden: true });
const spoken = h("div", { class: "hidden-text", role: "status" });

function showTip(tokens, i, element, { aloud = false } = {}) {
  const pairs = facts(tokens, i);
  put(tip, h("span", { class: "mono" }, JSON.stringify(tokens.pieces[i])), h("dl", {}, pairs.map(([name, text]) => [h("dt", {}, name), h("dd", {}, text)])));
  if (!tip.isConnected) document.body.append(tip, spoken);
  tip.hidden = false;
  const box = element.getClientRects()[0] ?? element.getBoundingClientRect();
  const left = Math.max(8, Math.min(box.left, innerWidth - tip.offsetWidth - 8));
  const below = box.bottom + 6 + tip.offsetHeight < innerHeight;
  tip.style.setProperty("left", `${left}px`);
  tip.style.setProperty("top", `${below ? box.bottom + 6 : box.top - tip.offsetHeight - 6}px`);
  if (aloud) put(spoken, `${tokens.pieces[i]}: ${pairs.map((pair) => pair.join(" ")).join(", ")}`);
}

export const hideTip = () => { tip.hidden = true; };

// A line break is seen, as it is a token too.
const seen = (piece) => piece.replace(/\n/g, "\u21b5\n");

// Return { element, shade(shade, scale) } of a turn's tokens.
export function tokenText(tokens, label, { mark = -1 } = {}) {
  let spans = [];
  let present = [null, 1];
  let cursor = -1;
  const element = h("div", {
    class: "tokens text", tabindex: "0", role: "group", "aria-label": `${label}: left and right arrows move over its tokens`, "data-own-keys": true,
    on: { mouseover: over, mouseleave: hideTip, keydown: move, blur: leave },
  });
  function paint() {
    const [shade, scale] = present;
    spans.forEach((span, i) => {
      span.className = (shade ? classOf(shade, scale, tokens, i) : "tok") + (i === cursor ? " cursor" : "") + (i === mark ? " split" : "");
    });
  }
  function draw(limit) {
    spans = tokens.pieces.slice(0, limit).map((piece) => h("span", {}, seen(piece)));
    put(element, spans);
    const rest = tokens.pieces.length - spans.length;
    if (rest > 0) element.append(h("button", { class: "more", type: "button", on: { click: () => draw(tokens.pieces.length) } }, `show all (${rest.toLocaleString("en")} more tokens)`));
    else if (tokens.cut) element.append(h("span", { class: "more" }, `${tokens.cut.toLocaleString("en")} more tokens are in the file`));
    paint();
  }
  function over(event) {
    const i = spans.indexOf(event.target);
    if (i >= 0) showTip(tokens, i, spans[i]);
    else hideTip();
  }
  function move(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by || event.target !== element) return;
    event.preventDefault();
    cursor = Math.max(0, Math.min(spans.length - 1, cursor + by));
    paint();
    spans[cursor].scrollIntoView({ block: "nearest" });
    showTip(tokens, cursor, spans[cursor], { aloud: true });
  }
  function leave() {
    cursor = -1;
    hideTip();
    paint();
  }
  draw(Math.max(MOST, mark + 50));
  return { element, shade: (shade, scale) => { present = [shade, scale]; paint(); } };
}
