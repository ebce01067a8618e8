// Ask the built site's own search: node ask_search.js BUILD QUERY... prints the pages found, best first.
const fs = require("fs");
const vm = require("vm");

const [build, ...queries] = process.argv.slice(2);
const page = {
  DOCUMENTATION_OPTIONS: {},
  SPHINX_HIGHLIGHT_ENABLED: false,
  _: (text) => text,
  _ready: () => {},
  document: { getElementById: () => null },
};
page.window = vm.createContext(page);
for (const script of ["_static/searchtools.js", "_static/language_data.js", "searchindex.js"])
  vm.runInContext(fs.readFileSync(`${build}/${script}`, "utf-8"), page);
const ask = vm.runInContext(
  "(query) => Search._performSearch(...Search._parseQuery(query)).reverse()",
  page,
);
console.log(JSON.stringify(queries.map(ask)));
