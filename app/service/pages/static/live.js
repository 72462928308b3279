// Keeps the page of a dataset in step with its head while somebody looks at it.
"use strict";
const PAUSE_MS = 5000;

async function look() {
  const shown = document.querySelector("article[data-dataset]");
  if (!shown || document.hidden) return true;
  const answer = await fetch(`${shown.dataset.dataset}/refs/head`, { credentials: "omit" });
  if (!answer.ok) return false; // private: scripts carry no session
  const head = (await answer.text()).trim();
  if (head === shown.dataset.head) return true;
  const page = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!page.ok) return false;
  const fresh = new DOMParser().parseFromString(await page.text(), "text/html");
  const article = fresh.querySelector("article[data-dataset]");
  if (article) shown.replaceWith(article);
  return true;
}

async function watch() {
  try {
    if (await look()) setTimeout(watch, PAUSE_MS);
  } catch {
    setTimeout(watch, PAUSE_MS); // the node is away for a moment
  }
}

setTimeout(watch, PAUSE_MS);
