// Order of the results of a search: pages of the guide, then examples and the reference, then
// records and chapters for authors, last the reference for authors, unless asked by whole names.
const AUTHORS = [
  "development/",
  "own_structure_contract$",
  "api/authors/",
  "generated/skstruct\\.(core\\.(?!jit)|graphs\\.(?!pairwise)|losses\\.|testing\\.)",
  "generated/skstruct\\.(map_inference\\.factors|scores\\.(ScoreMap|Linearisation))",
];
const PLACES = [
  [/^changelog$/, 0.4],
  [/^(benchmarks|papers|references|own_structure|guide\/(own_solver|glossary|variants))\b/, 0.75],
  [/^(generated|auto_examples|api)\b/, 1],
  [/^/, 1.05],
];
var Scorer = {
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
  score: (result) => {
    const [page, , anchor, , score] = result;
    // A page's first entry for the index, below its title, stands for the page.
    if (anchor === "#index-0") result[2] = "";
    if (AUTHORS.some((pages) => page.match(`^${pages}`))) return score * (score > 15 ? 0.9 : 0.01);
    return score * PLACES.find(([pages]) => pages.test(page))[1];
  },
};

// Excerpts of 240 characters without the white space of the theme's breadcrumbs.
const excerpt = Search.htmlToText;
Search.htmlToText = (...page) => excerpt(...page).replace(/\s+/g, " ");
