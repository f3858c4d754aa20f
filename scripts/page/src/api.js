// Answers of the server, or of the data inside an exported page.

const holder = globalThis.document?.getElementById("rlx-data");
const embedded = holder ? JSON.parse(holder.textContent) : null;

export const isExport = embedded !== null;

// Return the name of an answer in an exported page: api/episode?run=a/b&file=x&line=3, values as they are.
export function doorName(door, query = {}) {
  const words = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return `api/${door}${words.length ? "?" : ""}${words.map(([key, value]) => `${key}=${value}`).join("&")}`;
}

function address(door, query) {
  const words = Object.entries(query ?? {}).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = words.map(([key, value]) => `${key}=${encodeURIComponent(value)}`).join("&");
  return `api/${door}${search ? `?${search}` : ""}`;
}

async function failure(response) {
  try {
    return (await response.json()).error ?? `the server answers ${response.status}`;
  } catch {
    return `the server answers ${response.status}`;
  }
}

async function call(door, query, options) {
  let response;
  try {
    response = await fetch(address(door, query), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("rlx view does not answer: is it still running?");
  }
  if (!response.ok) throw new Error(await failure(response));
  return response;
}

// Return the answer of a door as JSON.
export async function get(door, query, options) {
  if (!isExport) return (await call(door, query, options)).json();
  const answer = embedded[doorName(door, query)];
  if (answer === undefined) throw new Error("this is not in the exported page");
  return answer;
}

const pause = (milliseconds) => new Promise((done) => { setTimeout(done, milliseconds); });

// Return a door's bytes with their mark, or null where they have not changed since `mark`; they may lack what that mark
// had. While the server reads what it has not seen before, `onWait` gets { done, of } in bytes.
export async function getBytes(door, query, { mark = "", onWait = () => {} } = {}) {
  const asked = { ...query, mark };
  let response = await call(door, asked);
  while (response.status === 202) {
    onWait((await response.json()).indexing);
    await pause(300);
    response = await call(door, asked);
  }
  const fresh = response.headers.get("ETag")?.replaceAll('"', "") ?? "";
  if (response.status === 204 || (mark && fresh === mark)) {
    await response.body?.cancel();
    return null;
  }
  return { bytes: await response.arrayBuffer(), mark: fresh };
}

// Return the queries of a door that an exported page has answers for.
export function exported(door) {
  return Object.keys(embedded ?? {}).filter((name) => name.split("?")[0] === `api/${door}`).map((name) => {
    const words = name.slice(name.indexOf("?") + 1).split("&").map((word) => word.split(/=(.*)/s));
    return Object.fromEntries(words.map(([key, value]) => [key, value]));
  });
}

// Call `act` again and again while the page is visible, until the returned function is called.
export function every(milliseconds, act) {
  let timer = 0;
  let isOver = false;
  const again = async () => {
    if (!document.hidden) await act();
    if (!isOver) timer = setTimeout(again, milliseconds);
  };
  if (!isExport) timer = setTimeout(again, milliseconds);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}
