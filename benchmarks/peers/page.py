"""The tables of docs/benchmarks/peers.md, from the csv files, and its picture.

python -m benchmarks.peers.page
"""

from collections.abc import Callable, Iterable
from statistics import median

from benchmarks.peers import picture
from benchmarks.peers.workers import LIBRARIES, ROOT
from benchmarks.results import Table

PAGES = ROOT / "docs" / "benchmarks"
PAGE, PICTURE = PAGES / "peers.md", PAGES / "peers.svg"
BEGIN, END = "<!-- from here on: python -m benchmarks.peers.page -->", "<!-- up to here -->"
NAMES = {"gpflow": "GPflow", "gpytorch": "GPyTorch", "gpjax": "GPJax", "gpy": "GPy"}
NAMES |= {"sklearn": "scikit-learn", "streaming": "published scripts"}
NAMES |= {"numpyro": "NumPyro", "botorch": "BoTorch", "gpflux": "GPflux"}
WORDS = {
    "exact exact": "exact GP, value and gradient",
    "exact exact_default": "the same, GPyTorch's default algorithm",
    "sparse vfe": "VFE (power 0), value and gradient",
    "sparse fitc": "FITC (power 1), value and gradient",
    "sparse power": "power 0.5, value and gradient",
    "latent latent": "collapsed GPLVM of 12 outputs, value and gradient",
    "step svgp": "step on a minibatch of 256",
    "prediction vfe": "mean and variance of as many rows",
    "past vfe": "value and gradient after as many rows, power 0",
    "past power": "the same, power 0.5",
    "conditioning vfe": "an update after 10,000 rows, with predictions of 1,000",
    "conditioning vfe_default": "the same, GPyTorch's default algorithm",
    "ep_full full": "EP, probit, full",
    "ep_sparse sparse": "EP, probit, sparse",
}
DEEP = {
    "one": "value and gradient, one draw for each row",
    "two": "the same, two draws",
    "step": "the first with an update by Adam",
    "products": "matrix products of the first",
}
# Tables whose rows are shown at every cap on threads.
ALL_CAPS = ("peers_deep.csv",)
# A method, a peer with its method, and how many times longer the peer should take.
AIMS = (
    ("vfe", "gpflow", "vfe", 2.0),
    ("vfe", "gpytorch", "vfe", 2.0),
    ("vfe", "gpjax", "vfe", 4.0),
    ("power", "gpflow", "fitc", 1.5),
    ("fitc", "gpflow", "fitc", 1.5),
)
# Those tasks whose values should agree.
SAME = ("exact exact", "sparse vfe", "sparse fitc", "sparse power", "step svgp", "ep_full full")
Row = dict[str, str]


def rows(name: str) -> list[Row]:
    """The rows of a csv, mostly at the cap on threads that was measured last."""
    found = Table(name, ()).rows()
    if name in ALL_CAPS:
        return found
    return [row for row in found if row["threads"] == found[-1]["threads"]]


def table(head: Iterable[str], lines: Iterable[Iterable[str]]) -> str:
    """A table in Markdown."""
    head = list(head)
    body = [head, ["---"] * len(head), *(list(line) for line in lines)]
    return "\n".join(f"| {' | '.join(line)} |" for line in body)


def called(library: str) -> str:
    """How a library writes its name."""
    return NAMES.get(library, library)


def short(text: str, digits: int = 3) -> str:
    """A number with so many significant digits; nothing for nothing."""
    if not text:
        return ""
    value = float(text)
    decimals = digits - 1 - (0 if value == 0.0 else int(f"{abs(value):e}".split("e")[1]))
    return f"{value:,.{max(decimals, 0)}f}"


def kinds(found: list[Row]) -> list[tuple[str, str, str]]:
    """Task with method, rows and inducing points, in the order of the words for them."""
    seen = {(f"{row['task']} {row['method']}", row["N"], row["M"]) for row in found}
    order = list(WORDS)
    return sorted(seen, key=lambda kind: (order.index(kind[0]), int(kind[1]), int(kind[2])))


def times(found: list[Row]) -> str:
    """Milliseconds of every library, and how many times cavity's that is."""
    lines = []
    libraries = dict.fromkeys(row["library"] for row in found)
    for what, N, M in kinds(found):
        task, method = what.split()
        cells = []
        for library in libraries:
            key = (task, method, N, M, library)
            cells += [_cell(one) for one in found if _key(one) == key] or [""]
        lines.append([WORDS[what], f"{int(N):,}", "" if M == "0" else M, *cells])
    return table(["ms (times cavity's)", "N", "M", *map(called, libraries)], lines)


def _key(row: Row) -> tuple[str, ...]:
    return row["task"], row["method"], row["N"], row["M"], row["library"]


def _cell(row: Row) -> str:
    ours = row["library"] == "cavity" or not row["over_cavity"]
    return short(row["ms"]) + ("" if ours else f" ({float(row['over_cavity']):.2f})")


def aims(found: list[Row]) -> str:
    """What was aimed at for the sparse energy, and what was measured."""
    at = {_key(row): (float(row["ms"]), float(row["cpu_ms"])) for row in found}
    lines = []
    for N, M in sorted({(r["N"], r["M"]) for r in found if r["task"] == "sparse"}, key=_numbers):
        for method, library, theirs, aim in AIMS:
            pair = ("sparse", method, N, M, "cavity"), ("sparse", theirs, N, M, library)
            if not all(key in at for key in pair):
                continue
            ratio, cpu = (a / b for a, b in zip(at[pair[1]], at[pair[0]], strict=True))
            power = {"vfe": "0", "power": "0.5", "fitc": "1"}[method]
            size = [f"{int(N):,}", M, power, f"{called(library)} {theirs.upper()}"]
            reached = "yes" if ratio >= aim else "no"
            lines.append([*size, f"{aim:g}", f"{ratio:.2f}", reached, f"{cpu:.2f}"])
    head = ("N", "M", "power", "beside", "aim", "times cavity's", "reached", "in processor time")
    return table(head, lines)


def _numbers(pair: tuple[str, str]) -> tuple[int, int]:
    return int(pair[0]), int(pair[1])


def agreement(found: list[Row]) -> str:
    """The greatest difference of a value from cavity's, where they should agree."""
    lines = []
    for what in SAME:
        task, method = what.split()
        cells = []
        for library in LIBRARIES[1:]:
            key = (task, method, library)
            mine = [r for r in found if (r["task"], r["method"], r["library"]) == key]
            given = [abs(float(r["difference"])) for r in mine if r["difference"]]
            cells.append(f"{max(given):.1e}" if given else "")
        if any(cells):
            lines.append([WORDS[what].removesuffix(", value and gradient"), *cells])
    return table(["nats", *map(called, LIBRARIES[1:])], lines)


def starts(found: list[Row]) -> str:
    """Import, first call and memory of every library."""
    lines = []
    for library in LIBRARIES:
        mine = {row["what"]: row for row in found if row["library"] == library}
        seconds = ("import", "import of its floor", "first call")
        cells = [short(mine[what]["seconds"]) if what in mine else "" for what in seconds]
        peak = short(mine["memory"]["peak_gb"]) if "memory" in mine else ""
        lines.append([called(library), *cells, peak])
    head = ("", "import, s", "of that the floor, s", "first value and gradient, s", "peak, GB")
    return table(head, lines)


def limits(found: list[Row]) -> str:
    """A sentence on when fits were stopped."""
    row, most = found[-1], {row["library"]: row["iterations"] for row in found}
    return (
        f"Fits of power 0 from the same start, for at most {row['iterations']} iterations "
        f"(cavity: {most.get('cavity', '')}) and, where the library can be stopped, "
        f"{float(row['limit_seconds']):g} seconds. Share is the time after which cavity is where "
        "the library ends, over that library's seconds; RMSE and mean log density are of "
        "standardised test rows, where each ends."
    )


def fits(found: list[Row]) -> str:
    """Where every library ends, and when cavity is there."""
    lines = []
    for row in found:
        size = [row["set"], f"{int(row['N']):,}", row["M"], called(row["library"])]
        ours = row["library"] == "cavity"
        there = ["", ""] if ours else [short(row["cavity_seconds"]), short(row["share"], 2)]
        there = ["never", ""] if not (ours or row["share"]) else there
        end = [short(row["seconds"]), f"{float(row['objective']):,.1f}", *there]
        lines.append([*size, *end, f"{float(row['rmse']):.4f}", f"{float(row['density']):.4f}"])
    head = ("set", "N", "M", "library", "seconds", "ends at", "cavity is there after", "share")
    return table([*head, "RMSE", "log density"], lines)


def grouped(found: list[Row], *names: str) -> dict[tuple[str, ...], list[Row]]:
    """The rows that agree in these columns, in the order of the first of them."""
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in found:
        groups.setdefault(tuple(row[name] for name in names), []).append(row)
    return groups


def streams(found: list[Row]) -> str:
    """What models that learned batches predict, by cavity and by the published scripts."""
    cases, lines = grouped(found, "case", "order", "M", "library", "power"), []
    for (case, order, M, library, power), rows in cases.items():
        means = [sum(float(r[name]) for r in rows) / len(rows) for name in ("error", "nlpd")]
        worst = max(float(row["error"]) for row in rows)
        cells = [case, order, M, called(library), power, str(len(rows))]
        lines.append([*cells, *(f"{value:.4f}" for value in (*means, worst))])
    head = ("set", "order", "M", "by", "power", "starts", "error", "NLPD", "largest error")
    return table(head, lines)


def linear(found: list[Row]) -> str:
    """Seconds and errors of sparse linear regression, medians over draws."""
    cases, lines = grouped(found, "columns", "library", "method"), []
    # a sort that keeps the order of rows of one size
    for (columns, library, method), rows in sorted(cases.items(), key=lambda c: int(c[0][0])):
        middle = [median(float(r[name]) for r in rows) for name in ("seconds", "error", "rmse")]
        settled = sum(row["converged"] == "True" for row in rows)
        said = f"{settled} of {len(rows)}" if rows[0]["converged"] else ""
        if rows[0]["effective"]:
            drawn = ", ".join(f"{float(row['effective']):.0f}" for row in rows)
            said = f"effective draws {drawn}"
        cells = [f"{int(columns):,}", called(library), method.replace("_", " ")]
        lines.append([*cells, short(str(middle[0])), *(f"{x:.3f}" for x in middle[1:]), said])
    head = ("columns", "by", "method", "seconds", "error of coefficients", "RMSE", "converged")
    return table(head, lines)


def network_fits(found: list[Row]) -> str:
    """Seconds and scores of a network of boston, by cavity and by a chain."""
    lines = []
    for row in (row for row in found if row["part"] == "fit"):
        said = f"converged: {row['converged']}" if row["converged"] else ""
        if row["effective"]:
            drawn = f"effective draws {float(row['effective']):.0f}"
            said = f"{drawn}, divergences {row['divergences']}"
        seconds = [short(row[name]) for name in ("seconds", "cpu_seconds")]
        scores = [f"{float(row[name]):.3f}" for name in ("density", "rmse")]
        lines.append([called(row["library"]), *seconds, *scores, said])
    head = ("by", "seconds", "of the processor", "log density", "RMSE", "")
    return table(head, lines)


def network_sweeps(found: list[Row]) -> str:
    """Times of sweeps, and how they grow with rows and with units."""
    made, lines = [row for row in found if row["part"] == "sweeps"], []
    for size, held in (("rows", "units"), ("units", "rows")):
        for value, group in grouped(made, held).items():
            ordered = sorted(group, key=lambda row: int(row[size]))
            if len(ordered) == 1:
                continue
            for before, row in zip([None, *ordered], ordered, strict=False):
                both = {size: row[size], held: value[0]}
                cells = [f"{int(both['rows']):,}", both["units"], short(row["ms"])]
                times = [_growth(before, row, size, name) for name in ("ms", "cpu_ms")]
                lines.append([*cells, short(row["cpu_ms"]), *times])
    head = ("rows", "units", "ms", "of the processor", "times as linear", "of the processor")
    return table(head, lines)


def _growth(before: Row | None, row: Row, size: str, name: str) -> str:
    """By how much more a time grew than the size did."""
    if before is None:
        return ""
    times, sizes = (float(row[x]) / float(before[x]) for x in (name, size))
    return f"{times / sizes:.2f}"


def network_memory(found: list[Row]) -> str:
    """A sentence on the memory of a fit."""
    for row in (row for row in found if row["part"] == "memory"):
        return (
            f"A fit of {row['units']} units to {int(row['rows']):,} rows of protein has a peak of "
            f"{short(row['peak_gb'])} GB of memory."
        )
    return ""


def deep_times(found: list[Row]) -> str:
    """Milliseconds of every library at every cap on threads, and how many times cavity's."""
    lines = []
    libraries = dict.fromkeys(row["library"] for row in found)
    for (threads, method), group in grouped(found, "threads", "method").items():
        mine = {row["library"]: row for row in group}
        cells = []
        for library in libraries:
            row = mine.get(library, {"ms": "", "cpu_ms": ""})
            for unit in ("ms", "cpu_ms"):
                times = row.get(f"{unit}_over_cavity") if library != "cavity" else ""
                cells.append(short(row[unit]) + (f" ({float(times):.1f})" if times else ""))
        lines.append([DEEP[method], threads, *cells])
    names = [called(library) for library in libraries]
    units = [cell for name in names for cell in (name, f"{name}, processor")]
    return table(["ms (times cavity's)", "threads", *units], lines)


def deep_starts(found: list[Row]) -> str:
    """First calls, and the values on which all agree."""
    made = [row for row in found if row["mean"]]
    ours = {row["threads"]: row for row in made if row["library"] == "cavity"}
    lines = []
    for row in made:
        same = ours[row["threads"]]
        seconds = [short(row[name]) for name in ("first_seconds", "first_cpu_seconds")]
        mean = f"{float(row['mean']):,.1f} ± {float(row['error']):.1f}"
        apart = abs(float(row["certain"]) / float(same["certain"]) - 1.0)
        cells = [called(row["library"]), row["threads"], *seconds, mean]
        lines.append([*cells, "" if row is same else f"{apart:.0e}"])
    head = ("", "threads", "first call, s", "of the processor", "mean of draws")
    return table([*head, "relative difference where nothing is drawn"], lines)


def gains(found: list[Row]) -> str:
    """A sentence on what a row is worth."""
    row = found[-1]
    return (
        f"`cavity.suggest` and {called(row['library'])} {row['version']} agree on how much each "
        f"of {row['candidates']} candidates would lower the mean variance of f over a hundred "
        f"places: they differ by {float(row['apart']):.0e} at the most, where the largest gain "
        f"is {short(row['largest_gain'])}."
    )


def machine(found: list[Row]) -> str:
    """A sentence on versions and the machine."""
    busy = sorted({f"{float(row['others']):.1f}" for row in found if row["others"]})
    load = f"{' to '.join(busy[:: max(len(busy) - 1, 1)])} cores" if busy else "an unknown share"
    return f"{machine_of_processes(found)} Other work on the machine kept {load} busy meanwhile."


def machine_of_processes(found: list[Row]) -> str:
    """A sentence on versions and the processor, where other work was not watched."""
    versions, row = {row["library"]: row["version"] for row in found}, found[-1]
    listed = ", ".join(
        f"{called(name)}{' on GPflow' if name == 'streaming' else ''} {version}"
        for name, version in versions.items()
    )
    caps = list(dict.fromkeys(row["threads"] for row in found))
    threads = f"{' or '.join(caps)} thread{'' if caps == ['1'] else 's'}"
    return f"{listed}; {row['processor']}, {row['cores']} cores, {threads} for each library."


PARTS: tuple[tuple[str, str, tuple[Callable[[list[Row]], str], ...]], ...] = (
    ("Values and times", "peers.csv", (machine, times, aims, agreement)),
    ("Fresh processes", "peers_starts.csv", (starts,)),
    ("Whole fits", "peers_fits.csv", (machine, limits, fits)),
    ("Updates beside other libraries", "peers_streaming.csv", (machine, times)),
    ("Steps of deep GPs", "peers_deep.csv", (machine, deep_times, deep_starts)),
    ("Streams", "peers_streams.csv", (machine_of_processes, streams)),
    ("What a row is worth", "peers_active.csv", (gains,)),
    ("Sparse linear regression", "peers_linear.csv", (machine_of_processes, linear)),
    (
        "Networks",
        "peers_networks.csv",
        (machine_of_processes, network_fits, network_sweeps, network_memory),
    ),
)


def text() -> str:
    """The generated part of the page."""
    parts = []
    for title, name, makers in PARTS:
        found = rows(name) if Table(name, ()).rows() else []
        if found:
            parts += [f"## {title}", *(maker(found) for maker in makers)]
    return "\n\n".join([BEGIN, *parts, END])


def replaced(page: str, part: str) -> str:
    """The page with another generated part."""
    head, rest = page.split(BEGIN)
    return head + part + rest.split(END)[1]


def main() -> None:
    PAGE.write_text(replaced(PAGE.read_text(), text()))
    picture.draw(rows("peers.csv"), Table("peers_traces.csv", ()).rows(), PICTURE)


if __name__ == "__main__":
    main()
