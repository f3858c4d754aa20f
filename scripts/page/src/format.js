// Numbers, durations and ages in few characters.

export const MISSING = "\u2013";

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

// Return a number with about three significant digits: 0.4312 -> 0.431, 12345 -> 12,345.
export function number(value) {
  if (!isNumber(value)) return MISSING;
  if (value < 0) return `\u2212${number(-value)}`;
  const size = value;
  if (size === 0) return "0";
  if (Number.isInteger(value) && size < 1e6) return value.toLocaleString("en");
  if (size >= 1e6 || size < 1e-3) return value.toExponential(2).replace("e+", "e");
  return value.toLocaleString("en", { maximumSignificantDigits: size >= 1000 ? 5 : 3 });
}

// Return a number with a fixed number of decimals, for columns.
export const fixed = (value, digits = 2) => (isNumber(value) ? value.toFixed(digits).replace("-", "\u2212") : MISSING);

export const count = (value) => (isNumber(value) ? Math.round(value).toLocaleString("en") : MISSING);

export const percent = (value) => (isNumber(value) ? `${(100 * value).toFixed(1)}%` : MISSING);

// Return seconds as 42 s, 7 min, 3 h 20 min or 2 d 4 h.
export function duration(seconds) {
  if (!isNumber(seconds)) return MISSING;
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  if (seconds < 90) return `${Math.round(seconds)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return minutes % 60 ? `${hours} h ${minutes % 60} min` : `${hours} h`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// Return how long ago a time in epoch seconds was.
export const ago = (time, now = Date.now() / 1000) => (isNumber(time) ? `${duration(Math.max(0, Math.round(now - time)))} ago` : MISSING);

export const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;
