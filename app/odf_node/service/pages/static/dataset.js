// The page of a dataset: buttons that copy, a check by the visitor's machine, news as they come.
import { addButtons } from "./copy.js";
import { follow } from "./live.js";
import { offer } from "./verify.js";

function dress(article) {
  addButtons(article);
  const section = article.querySelector("#verify");
  if (section) offer(section, article);
}

const article = document.querySelector("article[data-dataset]");
dress(article);
follow(dress);
