// The page of a dataset: buttons that copy, news as they come.
import { follow } from "./live.js";

const COPIED_MS = 1500;

function dress(article) {
  for (const lines of article.querySelectorAll("pre[data-copy]")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy";
    button.addEventListener("click", () => copy(lines, button));
    lines.before(button);
  }
}

async function copy(lines, button) {
  try {
    await navigator.clipboard.writeText(lines.textContent);
    button.textContent = "Copied";
  } catch {
    // Browsers keep the clipboard from pages without HTTPS: the visitor copies what is selected.
    getSelection().selectAllChildren(lines);
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), COPIED_MS);
}

const article = document.querySelector("article[data-dataset]");
dress(article);
follow(dress);
