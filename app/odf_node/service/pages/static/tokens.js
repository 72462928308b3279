// The page of access tokens: a new one is copied by a button.
import { addButtons } from "./copy.js";

addButtons(document);
