// Looks words up in the built documentation, with the site's own search program:
//
//     node scripts/search.js docs/_build/html docs/search.csv     fails where a page is not first
//     node scripts/search.js docs/_build/html "words to look up"  the first ten pages
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const [site, asked] = process.argv.slice(2);
const page = { getElementById: () => null, querySelectorAll: () => [] };
const context = vm.createContext({
  document: page,
  DOCUMENTATION_OPTIONS: {},
  SPHINX_HIGHLIGHT_ENABLED: false,
  _: (text) => text,
  _ready: () => {},
  URLSearchParams,
});
context.window = context; // as in browsers
context.location = { search: "" };
for (const file of ["_static/language_data.js", "_static/searchtools.js", "searchindex.js"])
  vm.runInContext(fs.readFileSync(path.join(site, file), "utf8"), context);
const search = vm.runInContext("(q) => Search._performSearch(...Search._parseQuery(q))", context);

// Pages in the order of the results, of which the best is last.
function pages(words) {
  context.location.search = `?q=${encodeURIComponent(words)}`; // the scorer reads it there
  const found = search(words).reverse();
  return [...new Set(found.map((result) => result[0]))];
}

if (!asked.endsWith(".csv")) {
  console.log(pages(asked).slice(0, 10).join("\n"));
} else {
  const rows = fs.readFileSync(asked, "utf8").trim().split("\n").slice(1);
  const wrong = rows
    .map((row) => row.split(","))
    .map(([task, words, right]) => [task, words, right, pages(words)])
    .filter(([, , right, found]) => found[0] !== right);
  for (const [task, words, right, found] of wrong)
    console.log(`${task}: "${words}" finds ${found.slice(0, 3).join(", ") || "nothing"}, not ${right}`);
  console.log(`${rows.length - wrong.length} of ${rows.length} searches find their page first`);
  process.exitCode = wrong.length ? 1 : 0;
}
