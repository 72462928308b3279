// Runs the check of a dataset beside its page, and tells the page how far it is.
import { walk } from "./walk.js";

onmessage = async ({ data: asked }) => {
  const told = await walk({ ...asked, tell: (sofar) => postMessage(sofar) });
  postMessage({ ...told, done: true });
};
