// The table that an episode was opened from, so that the arrow keys go on along it.
import { hashOf } from "./route.js";

let trail = null; // { run, table, rows }

export const leaveTrail = (run, table, rows) => { trail = { run, table, rows }; };

function hashAt(place) {
  const { run, table, rows } = trail;
  const row = rows[place];
  return row === undefined ? null : hashOf("episode", { run, file: table.files[table.columns.file[row]].name, line: table.columns.line[row] });
}

// Return where an episode is in the table: { place, of, before, after } with hashes, or null.
export function along({ run, file, line }) {
  if (trail?.run !== run) return null;
  const { columns, files } = trail.table;
  const place = trail.rows.findIndex((row) => columns.line[row] === Number(line) && files[columns.file[row]].name === file);
  return place < 0 ? null : { place: place + 1, of: trail.rows.length, before: hashAt(place - 1), after: hashAt(place + 1) };
}
