// Build page.html, page.js and page.css into rlx/view, or into the folder that is named.
import { copyFile, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "..", "..", "rlx", "view");

// The licences of packages whose code is in page.js.
const licences = await Promise.all(["uplot", "d3-hierarchy"].map(async (name) =>
  `${name}: ${(await readFile(join(here, "node_modules", name, "LICENSE"), "utf8")).trim()}`));

await build({
  absWorkingDir: here,
  entryPoints: { page: "src/main.js" },
  banner: { js: `/*!\n${licences.join("\n\n")}\n*/` },
  bundle: true,
  charset: "ascii", // control characters in the source stay visible
  format: "iife",
  legalComments: "none", // the banner has them
  minify: true,
  outdir: out,
  target: ["chrome123", "firefox120", "safari17.5"], // light-dark()
});
await build({ absWorkingDir: here, entryPoints: { page: "css/page.css" }, bundle: true, minify: true, outdir: out });
await copyFile(join(here, "page.html"), join(out, "page.html"));
