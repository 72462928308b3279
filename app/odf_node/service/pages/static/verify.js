// The button by which the visitor's own machine checks a dataset; the work is that of a worker.
const ASK_BYTES = 256 * 2 ** 20;
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** Fill the section of the page, once. */
export function offer(section, article) {
  if (section.dataset.ready) return;
  section.dataset.ready = "yes";
  const bytes = Number(section.dataset.bytes);
  const say = (...parts) => section.querySelector(".outcome").replaceChildren(...parts);
  const idle = () => {
    const all = () => (bytes > ASK_BYTES ? say(...question()) : begin(true));
    say(button(`Check it here: ${number(section.dataset.blocks)} blocks, ${size(bytes)} of files`, all));
  };
  const question = () => [
    paragraph(`This fetches ${size(bytes)}, and keeps none of it.`),
    button(`Fetch ${size(bytes)}`, () => begin(true)),
    button("Only the blocks", () => begin(false)),
    button("Cancel", idle),
  ];

  function begin(files) {
    const started = performance.now(), { head, dataset: at } = current(article).dataset;
    const bar = document.createElement("progress"), line = paragraph("Fetching the head");
    bar.setAttribute("aria-label", "Checked");
    line.setAttribute("aria-live", "off"); // it changes too often to be read out
    const worker = new Worker(section.dataset.worker, { type: "module" });
    const end = () => worker.terminate();
    say(bar, line, button("Cancel", () => (end(), idle())));
    worker.onerror = () => {
      end();
      say(problem("This browser cannot run the check."), button("Try again", () => begin(files)));
    };
    worker.onmessage = ({ data: told }) => {
      const seconds = (performance.now() - started) / 1000;
      bar.max = files ? Math.max(bytes, told.bytes) : told.total;
      bar.value = files ? told.bytes : told.blocks;
      line.textContent = `${count(told, files)} in ${seconds.toFixed(1)} s`;
      if (!told.done) return;
      end();
      say(...outcome(told, files, head, seconds), button("Check again", () => begin(files)));
    };
    const url = new URL(at, location.href).href;
    worker.postMessage({ at: url, head, id: section.dataset.id, files });
  }

  idle();
}

// The page may have been renewed meanwhile.
const current = (article) => document.querySelector("article[data-dataset]") ?? article;

function outcome(told, files, head, seconds) {
  const much = `${count(told, files)}, ${seconds.toFixed(1)} s, up to block ${head}`;
  if (told.problems.length) {
    const list = document.createElement("ul");
    list.append(...told.problems.map(({ message }) => Object.assign(document.createElement("li"), { textContent: message })));
    return [problem(`Not what it should be (${much}):`), list];
  }
  const what = files ? "Every block and file has" : "Every block has";
  return [paragraph(`${what} the hash it is named by, and the chain is whole: ${much}.`)];
}

const number = (text) => Number(text).toLocaleString("en");
const count = (told, files) =>
  `${number(told.blocks)} blocks${files ? `, ${number(told.files)} files` : ""}, ${size(told.bytes)}`;

function size(bytes) {
  let power = 0;
  for (; bytes >= 1024 && power < UNITS.length - 1; power++) bytes /= 1024;
  return `${power ? bytes.toFixed(1) : bytes} ${UNITS[power]}`;
}

function button(text, press) {
  const made = Object.assign(document.createElement("button"), { type: "button", textContent: text });
  made.addEventListener("click", press);
  return made;
}

const paragraph = (text) => Object.assign(document.createElement("p"), { textContent: text });
const problem = (text) => Object.assign(paragraph(text), { className: "problem" });
