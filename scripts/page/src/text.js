// Text of strangers: nothing in it is invisible or turns the direction of what follows.

const NAMES = {
  0xad: "SHY", 0x61c: "ALM", 0x180e: "MVS", 0x200b: "ZWSP", 0x200e: "LRM", 0x200f: "RLM", 0x2028: "LS", 0x2029: "PS",
  0x202a: "LRE", 0x202b: "RLE", 0x202c: "PDF", 0x202d: "LRO", 0x202e: "RLO", 0x2060: "WJ", 0x2066: "LRI", 0x2067: "RLI",
  0x2068: "FSI", 0x2069: "PDI", 0xfeff: "BOM",
};

// Control and format characters, tags of plane 14 and lone surrogates; tab and line feed are text.
const HIDDEN =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e0fff}]|\p{Cs}/gu;

function symbol(character) {
  const code = character.codePointAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  if (code >= 0xd800 && code < 0xe000) return "\ufffd";
  return `\u27e8${NAMES[code] ?? `U+${code.toString(16).toUpperCase().padStart(4, "0")}`}\u27e9`;
}

// Return the text with visible symbols in place of characters that nobody sees.
export const visible = (text) => text.replace(HIDDEN, symbol);

// Return one line of at most `most` characters.
export function oneLine(text, most = 160) {
  const line = text.slice(0, most * 4).replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}\u2026` : line;
}
