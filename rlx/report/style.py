"""Style of a report's page: system fonts, light and dark by the reader's setting, any width from a phone's on."""

CSS = """
:root { color-scheme: light dark; --page: #ffffff; --ink: #1b1f24; --soft: #57606a; --line: #d8dee4; --ground: #f6f8fa;
  --link: #0550ae; --good: #116329; --bad: #a40e26; }
@media (prefers-color-scheme: dark) { :root { --page: #0f1419; --ink: #e6edf3; --soft: #9da7b3; --line: #30363d;
  --ground: #171c23; --link: #79b8ff; --good: #56d364; --bad: #ff8c85; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 76rem; padding: 1.5rem 1.25rem 4rem; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.5rem 0 .75rem; padding-bottom: .3rem; border-bottom: 1px solid var(--line); }
header p { margin: .2rem 0; color: var(--soft); overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: .25rem 1.1rem; margin: 1rem 0; padding: .55rem 0;
  border-top: 1px solid var(--line); border-bottom: 1px solid var(--line); }
a { color: var(--link); text-decoration: none; }
a:hover, a:focus { text-decoration: underline; }
ul { margin: .75rem 0; padding-left: 1.2rem; }
li { margin: .2rem 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: 1rem 0 1.5rem; }
table { border-collapse: collapse; font-size: .87rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .2rem 0 .5rem; font-size: .95rem; }
th, td { padding: .34rem .7rem; text-align: right; border-bottom: 1px solid var(--line); vertical-align: top; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
tbody th { font-weight: 500; min-width: 9rem; max-width: 26rem; overflow-wrap: anywhere; }
.short, td.words.short { white-space: nowrap; overflow-wrap: normal; min-width: 0; }
td { white-space: nowrap; }
td.words { white-space: normal; text-align: left; min-width: 9rem; max-width: 34rem; overflow-wrap: anywhere; }
th.words { text-align: left; }
thead th { color: var(--soft); font-weight: 600; border-bottom: 2px solid var(--line); vertical-align: bottom; }
.interval { color: var(--soft); font-size: .92em; }
.good { color: var(--good); font-weight: 600; }
.bad { color: var(--bad); font-weight: 600; }
figure { display: inline-block; vertical-align: top; max-width: 100%; margin: 1rem 1.5rem 1.5rem 0; }
figcaption { font-weight: 600; font-size: .95rem; margin-bottom: .4rem; }
.picture { display: block; max-width: 100%; height: auto; }
.picture * { stroke-linejoin: round; stroke-linecap: butt; }
.picture text { fill: currentColor; font-family: system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif; }
pre { margin: 0; padding: .75rem; background: var(--ground); font-size: .87rem; }
details { margin: .75rem 0; }
summary { cursor: pointer; font-weight: 600; }
@media print { nav { display: none; } body { max-width: none; } }
"""
