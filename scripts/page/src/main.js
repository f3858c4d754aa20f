// The frame of the page: header, routes and keys.
import { isExport } from "./api.js";
import { h, put, svg } from "./dom.js";
import { episodeView } from "./episode.js";
import { exportView } from "./export.js";
import { groupView } from "./group.js";
import { listen, setGlobalKeys, setViewKeys, showHelp } from "./keys.js";
import { overviewView } from "./overview.js";
import { pairView } from "./pair.js";
import { go, hashOf, parseHash } from "./route.js";
import { runsView } from "./runs.js";
import { tableView } from "./table.js";
import { visible } from "./text.js";
import { nextTheme, themeName } from "./theme.js";

const VIEWS = {
  runs: isExport ? exportView : runsView, overview: isExport ? exportView : overviewView,
  episodes: isExport ? exportView : tableView, episode: episodeView, group: groupView, pair: pairView,
};

const main = h("main", { id: "main", tabindex: "-1" });
const crumbs = h("nav", { class: "crumbs", "aria-label": "Place" });
const themeButton = h("button", { class: "button plain", type: "button", on: { click: switchTheme } });
let shown = null; // { key, view } of what main shows

function switchTheme() {
  nextTheme();
  labelTheme();
}

function labelTheme() {
  const name = themeName();
  put(themeButton, { system: "\u25d0", light: "\u2600", dark: "\u263e" }[name]);
  themeButton.setAttribute("aria-label", `Theme: ${name}. Change it`);
  themeButton.title = `theme: ${name} (t)`;
}

const logo = () => svg("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" },
  svg("path", { d: "M3 13V3m0 5c4 0 3-5 10-5M3 8c4 0 3 5 10 5", fill: "none", stroke: "currentColor", "stroke-width": "2" }));

function frame() {
  labelTheme();
  document.body.replaceChildren(
    h("a", { class: "skip", href: "#main", on: { click: (event) => { event.preventDefault(); main.focus(); } } }, "Skip to content"),
    h("header", { class: "topbar" }, h("a", { class: "brand", href: "#/", title: "all runs" }, logo(), "rlx"), crumbs,
      h("div", { class: "tools" }, themeButton,
        h("button", { class: "button plain", type: "button", title: "keys (?)", "aria-label": "Keys", on: { click: showHelp } }, "?"))),
    main);
}

// Return the places above a route, the nearest last: [label, hash].
function placesOf(route) {
  const places = [];
  if (route.view !== "runs") places.push([route.run, hashOf("overview", route)]);
  if (["episodes", "episode", "group", "pair"].includes(route.view)) places.push(["episodes", hashOf("episodes", route)]);
  if (route.view === "episode") places.push([`${route.file} ${route.line}`, ""]);
  if (route.view === "group") places.push([`group ${route.group}`, ""]);
  if (route.view === "pair") places.push(["pair", ""]);
  return places;
}

function showCrumbs(route) {
  const places = placesOf(route);
  put(crumbs, h("ol", {}, places.map(([label, hash], i) =>
    h("li", {}, i === places.length - 1 ? h("span", { "aria-current": "page" }, label) : h("a", { href: hash }, label)))));
  document.title = visible(["rlx", ...places.map(([label]) => label.slice(0, 200))].reverse().join(" \u00b7 "));
}

function up() {
  const route = parseHash(location.hash || "#/");
  const places = route ? placesOf(route) : [];
  if (lastTable && ["episode", "group", "pair"].includes(route?.view) && lastTable.run === route.run) go(lastTable.hash);
  else if (places.length > 1) go(places[places.length - 2][1]);
  else go("#/");
}

let lastTable = null; // where escape goes back to, with its filters

function show() {
  const route = parseHash(location.hash || "#/");
  if (route?.view === "episodes") lastTable = { run: route.run, hash: location.hash };
  const key = route && JSON.stringify({ ...route, query: null });
  if (shown && key === shown.key && shown.view.update) {
    shown.view.update(route);
    return;
  }
  shown?.view.close?.();
  main.replaceChildren();
  main.className = "";
  if (!route) {
    put(main, h("p", { class: "empty" }, "This address leads nowhere. ", h("a", { href: "#/" }, "All runs")));
    shown = null;
    setViewKeys([]);
    return;
  }
  scrollTo(0, 0);
  showCrumbs(route);
  main.className = `view-${route.view}`;
  const view = VIEWS[route.view](main, route);
  shown = { key, view };
  setViewKeys(view.keys);
}

setGlobalKeys([
  { keys: ["/"], what: "search or filter", act: () => document.querySelector("[data-search]")?.focus() },
  { keys: ["Escape", "u"], what: "back, one place up", act: up },
  { keys: ["h"], what: "all runs", act: () => go("#/") },
  { keys: ["t"], what: "theme: system, light, dark", act: switchTheme },
  { keys: ["?"], what: "this list", act: showHelp },
]);
frame();
listen();
addEventListener("hashchange", show);
show();
