// The first page of an exported file: the episodes that it contains.
import { exported, get } from "./api.js";
import { h, put } from "./dom.js";
import { number, plural } from "./format.js";
import { hashOf } from "./route.js";

export function exportView(root) {
  const list = h("ul", { class: "card export-list" });
  const queries = exported("episode");
  root.append(h("div", { class: "page-head" }, h("h1", {}, "Exported episodes"), h("span", { class: "muted" }, plural(queries.length, "episode"))), list);
  Promise.all(queries.map(async (query) => [query, await get("episode", query)])).then((all) => put(list, all.map(([query, episode]) =>
    h("li", {}, h("a", { href: hashOf("episode", query) }, h("span", { class: episode.success ? "good" : "bad" }, episode.success ? "\u2713" : "\u2717"),
      h("span", { class: "text" }, [episode.task.env, episode.task.id].filter(Boolean).join(" \u00b7 ")), h("span", { class: "num" }, `reward ${number(episode.reward)}`), h("span", { class: "muted" }, `${query.run} \u00b7 ${query.file} ${query.line}`))))));
  let at = -1;
  const step = (by) => {
    const links = [...list.querySelectorAll("a")];
    at = Math.max(0, Math.min(links.length - 1, at + by));
    links[at]?.focus();
  };
  return { keys: [{ keys: ["j", "ArrowDown"], what: "next episode", act: () => step(1) }, { keys: ["k", "ArrowUp"], what: "episode before", act: () => step(-1) }] };
}
