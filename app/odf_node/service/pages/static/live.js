// Keeps the page of a dataset in step with its head while somebody looks at it: events of the node
// say when there is news, and the page is fetched again.
const AGAIN_MS = 15000; // after the node refused a stream; a stream that breaks comes back itself
let stream = null, waiting = 0, fetching = false, more = false;

const shown = () => document.querySelector("article[data-open]");

export function follow(dress) {
  const listen = () => {
    clearTimeout(waiting);
    const article = shown();
    if (!article || document.hidden || stream) return;
    stream = new EventSource(`${article.dataset.dataset}/events?lastEventId=${article.dataset.head}`);
    for (const kind of ["block", "reset"]) stream.addEventListener(kind, () => renew(dress));
    stream.onerror = () => {
      if (stream.readyState !== EventSource.CLOSED) return;
      stream = null;
      waiting = setTimeout(listen, AGAIN_MS);
    };
  };
  const pause = () => {
    stream?.close();
    stream = null;
  };
  document.addEventListener("visibilitychange", () => (document.hidden ? pause() : listen()));
  listen();
}

async function renew(dress) {
  more = true;
  if (fetching) return;
  fetching = true;
  try {
    while (more) {
      more = false;
      const answer = await fetch(location.href, { headers: { accept: "text/html" } });
      if (!answer.ok) continue;
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("article[data-open]");
      if (fresh) put(fresh, dress);
    }
  } catch {
    waiting = setTimeout(() => renew(dress), AGAIN_MS); // the node is away for a moment
  } finally {
    fetching = false;
  }
}

function put(fresh, dress) {
  const old = shown();
  fresh.querySelectorAll("details").forEach((each, place) => {
    const before = old.querySelectorAll("details")[place];
    if (before) each.open = before.open;
  });
  // What the visitor has written, opened or started stays.
  for (const kept of ["#sql", "#verify"]) {
    const before = old.querySelector(kept), after = fresh.querySelector(kept);
    if (before && after) after.replaceWith(before);
  }
  old.replaceWith(fresh);
  dress(fresh);
}
