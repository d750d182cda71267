// The scores of Sphinx's search; more for pages that answer everyday questions, and for the share
// of the words looked up that stand in the title of a page.
const BETTER = {
  tasks: 14,
  "tasks/not-converged": 13, // the other pages about fits come before
  "tasks/own-kernel": 12, // those that there are come before
  "tasks/own-likelihood": 12,
  names: 13,
  "getting-started": 3,
  guides: 3,
  gallery: 2,
  platforms: 1,
  benchmarks: -2,
  theory: -2,
  contributing: -3,
  architecture: -3,
  changelog: -5,
};
const stems = (text) =>
  splitQuery(text.toLowerCase())
    .filter((word) => word.length > 2)
    .map((word) => new Stemmer().stemWord(word));
const share = (title) => {
  const asked = stems(new URLSearchParams(window.location.search).get("q") ?? "");
  const there = new Set(stems(title));
  return asked.filter((word) => there.has(word)).length / Math.max(asked.length, 1);
};
var Scorer = {
  score: ([page, title, , described, score]) => {
    if (described) return score; // a class or function, by its name
    const more = BETTER[page] ?? BETTER[page.split("/")[0]] ?? 0;
    return score + (score >= 15 ? more : 0.85 * more) + 6 * share(title);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 5, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
