// What the package exports; index.d.ts describes it.
export { Dataset } from "./dataset.js";
export { Node, open } from "./node.js";
export { OdfError } from "./transport.js";
