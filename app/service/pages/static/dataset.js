// The page of a dataset: buttons that copy, a check by the visitor's machine, news as they come.
import { follow } from "./live.js";
import { offer } from "./verify.js";

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
  const section = article.querySelector("#verify");
  if (section) offer(section, article);
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
