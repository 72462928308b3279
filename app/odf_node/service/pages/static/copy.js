// Buttons that copy the lines beside them.
const COPIED_MS = 1500;

export function addButtons(place) {
  for (const lines of place.querySelectorAll("pre[data-copy]")) {
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
