// The API, as whoever is logged in. The browser keeps the cookie that says so;
// no script can read it.

/** What the API says is wrong (RFC 9457). */
export class Problem extends Error {
  constructor(status, code, detail) {
    super(detail);
    this.status = status;
    this.code = code;
  }
}

/** Asks the API. Path is below /api/v1/. */
export async function call(method, path, body) {
  let answer;
  try {
    answer = await fetch(`/api/v1/${path}`, {
      method,
      headers: body === undefined ? {} : { "Content-Type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Problem(0, "away", "The proxy does not answer. It may be starting anew.");
  }
  if (answer.status === 204) return null;
  const said = await answer.json().catch(() => ({}));
  if (answer.ok) return said;
  if (answer.status === 401 && path !== "login") dispatchEvent(new Event("signed-out"));
  throw new Problem(answer.status, said.code ?? "", said.detail ?? `The proxy answered ${answer.status}.`);
}

export const get = (path, query) => {
  const q = new URLSearchParams(Object.entries(query ?? {}).filter(([, v]) => v !== "" && v !== undefined && v !== null));
  return call("GET", q.size > 0 ? `${path}?${q}` : path);
};
export const post = (path, body) => call("POST", path, body);

/** A path of parts that may hold anything. */
export const path = (...parts) => parts.map(encodeURIComponent).join("/");
