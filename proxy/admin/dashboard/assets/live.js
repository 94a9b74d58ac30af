// The events of all proxies, as they come, for as long as the page is open.

const KEPT = 500;

/** The events, the newest first. */
export const events = [];

let source = null;
const seen = new Set(); // lines, since a link that is made anew begins with the last ones

/** Begins to listen. onstate hears whether the link is there. */
export function listen(onstate) {
  source?.close();
  source = new EventSource("/api/v1/events?last=200");
  source.onopen = () => onstate(true);
  source.onerror = () => {
    onstate(false);
    // The browser tries again by itself, but for an answer that is an error.
    if (source?.readyState === EventSource.CLOSED) setTimeout(() => source && listen(onstate), 5000);
  };
  source.addEventListener("audit", (e) => {
    if (seen.has(e.data)) return;
    seen.add(e.data);
    events.unshift({ n: seen.size, ...JSON.parse(e.data) });
    events.length = Math.min(events.length, KEPT);
    dispatchEvent(new CustomEvent("audit", { detail: events[0] }));
  });
}

/** Stops, and forgets what was heard. */
export function deafen() {
  source?.close();
  source = null;
  events.length = 0;
  seen.clear();
}
