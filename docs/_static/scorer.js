// The scores of Sphinx's search, and more for what answers everyday questions first.
const BETTER = { tasks: 10, names: 8, gallery: 2, guides: 3, "getting-started": 3, theory: -1 };
var Scorer = {
  score: ([page, , , , score]) => {
    const more = BETTER[page.split("/")[0]] ?? 0;
    return score + (score >= 15 ? more : more / 2);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
