// Light, dark, or as the system says.

const ORDER = ["system", "light", "dark"];
const watchers = new Set();

function stored() {
  try {
    return localStorage.getItem("rlx-theme");
  } catch {
    return null;
  }
}

let theme = ORDER.includes(stored()) ? stored() : "system";

function apply() {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  for (const watch of watchers) watch();
}

export const themeName = () => theme;

export function nextTheme() {
  theme = ORDER[(ORDER.indexOf(theme) + 1) % ORDER.length];
  try {
    localStorage.setItem("rlx-theme", theme);
  } catch { /* a page without storage keeps it until it is closed */ }
  apply();
  return theme;
}

// Call `watch` when the colours change, until the returned function is called.
export function onTheme(watch) {
  watchers.add(watch);
  return () => watchers.delete(watch);
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
apply();
