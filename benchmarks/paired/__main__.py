"""What rows of benchmarks cost in this checkout beside another one, of before a change.

One process for each checkout, on the same core and with one thread, both by this interpreter. They
take turns: a row of the one, the same row of the other, seven times, after calls that compile.
Processor seconds are medians of these turns, and a ratio is the median of the turns' ratios, this
checkout's over the other's. Rows are matched by their names; each checkout has its own from its
`benchmarks/paired/worker.py`, or where it has none is given the one beside this file.

python -m benchmarks.paired OTHER_CHECKOUT [--only WORD ...] [--repeats 7] [--warm 0]
"""

import argparse
import contextlib
import math
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.data import FOLDER
from benchmarks.peers.workers import ROOT, PeerFailed, Worker, capped
from benchmarks.results import Table

SCRIPT = Path("benchmarks") / "paired" / "worker.py"
# Seconds of a turn at the least, by so many calls at the most.
TURN, MOST = 0.2, 100
# What is asked of a change: the median, and of tables of more rows than these each ratio.
MEDIAN, LARGEST, ROWS = 1.03, 1.10, 512
Found = dict[str, Any]
Pair = tuple[Worker, Worker]


def started(checkout: Path, programs: str) -> Worker:
    """A checkout's process.

    Args:
        checkout: its root.
        programs: the folder of compiled programs; what is the same in both is compiled once.
    """
    own = checkout / SCRIPT
    script = own if own.exists() else Path(__file__).with_name(SCRIPT.name)
    kept = {"JAX_COMPILATION_CACHE_DIR": programs}
    kept |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0"}
    kept |= {"JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}
    places = {"PYTHONPATH": os.pathsep.join([str(checkout / "src"), str(checkout)])}
    caps = capped("cavity", 1) | kept | places | {"CAVITY_DATA": str(FOLDER.resolve())}
    process = Worker(str(checkout), [sys.executable, "-P", str(script)], caps, 1)
    if not Path(process.hello["source"]).is_relative_to(checkout):
        process.close()
        raise SystemExit(f"{checkout} would be measured with {process.hello['source']}")
    return process


def commit(checkout: Path) -> str:
    """The commit of a checkout, or its name where it has none."""
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty"]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stdout.strip() or checkout.name


def asked(process: Worker, do: str, **options: Any) -> Found:
    """What a process answers.

    Raises:
        PeerFailed: where the row fails.
        SystemExit: where the process has ended.
    """
    try:
        answer = process.ask(do, **options)
    except PeerFailed as ended:
        raise SystemExit(f"the process has ended: {ended}") from None
    if "failed" in answer:
        raise PeerFailed(f"fails in {process.library}: {answer['failed']}")
    return answer


def measured(pair: Pair, name: str, repeats: int, warm: int) -> Found:
    """A row: seconds of a call before and after, and their ratio.

    Turns in which a program was compiled do not count, unless all are.
    """
    first = [asked(process, "warm", name=name, least=warm) for process in pair]
    shortest = max(1e-6, min(answer["seconds"] for answer in first))
    times = min(math.ceil(TURN / shortest), MOST)
    turns = [
        [asked(process, "call", name=name, times=times) for process in pair]
        for _ in range(repeats)
    ]
    quiet = [turn for turn in turns if not any(answer["compiled"] for answer in turn)]
    seconds = [[answer["seconds"] for answer in turn] for turn in quiet or turns]
    before, after = (statistics.median(each) for each in zip(*seconds, strict=True))
    ratios = [b / a for a, b in seconds]
    found: Found = {"seconds_before": before, "seconds_after": after}
    found |= {"ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios)}
    return found | {"times": times, "compiling": len(turns) - len(quiet)}


def compared(pair: Pair, options: argparse.Namespace, table: Table) -> Found:
    """The ratios of all rows that both have, with the rows of their tables, by name."""
    before, after = (process.hello["rows"] for process in pair)
    words = options.only or [""]
    names = [name for name in before | after if any(word in name for word in words)]
    key = dict(zip(("before", "after"), (commit(Path(p.library)) for p in pair), strict=True))
    print(f"{'row':<52}{'rows':>7}{'before':>10}{'after':>10}{'ratio':>7}", flush=True)
    found: Found = {}
    for name in names:
        if name not in before or name not in after:
            print(f"{name:<52}only in {pair[name in after].library}", flush=True)
            continue
        try:
            row = measured(pair, name, options.repeats, options.warm)
        except PeerFailed as failure:
            print(f"{name:<52}{failure}", flush=True)
            continue
        finally:
            for process in pair:
                asked(process, "drop")
        text = f"{name:<52}{after[name]:>7}{row['seconds_before']:>10.4g}"
        text += f"{row['seconds_after']:>10.4g}{row['ratio']:>7.3f}"
        print(text + (f"  {row['compiling']} turns compile" * (row["compiling"] > 0)), flush=True)
        table.add({"row": name, "rows": after[name]} | row | {"repeats": options.repeats} | key)
        found[name] = {"rows": after[name], "ratio": row["ratio"]}
    return found


def judged(found: Found) -> list[str]:
    """What is asked of a change beside what was measured."""
    if not found:
        return ["no row in both"]
    median = statistics.median(row["ratio"] for row in found.values())
    lines = [f"median of {len(found)} ratios: {median:.3f}, at most {MEDIAN}: {median <= MEDIAN}"]
    large = {name: row["ratio"] for name, row in found.items() if row["rows"] > ROWS}
    if large:
        worst = max(large, key=lambda name: large[name])
        lines.append(f"worst of tables of more than {ROWS} rows: {worst}, {large[worst]:.3f}")
    above = {name: row["ratio"] for name, row in found.items() if row["ratio"] > LARGEST}
    for what, chosen in (("more than", True), ("at most", False)):
        listed = [f"{name} {above[name]:.3f}" for name in above if (name in large) == chosen]
        lines.append(f"above {LARGEST:.2f}, {what} {ROWS} rows: {'; '.join(listed) or 'none'}")
    return lines


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.paired", description=__doc__)
    parser.add_argument("other", type=Path, help="the root of the checkout of before")
    parser.add_argument("--only", nargs="+", default=[], help="words in the names of rows")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--warm", type=int, default=0, help="calls before the clock at the least")
    options = parser.parse_args(arguments)
    table = Table("paired.csv", ("row",))
    if not options.only:
        table.path.unlink(missing_ok=True)
    with contextlib.ExitStack() as stack:
        programs = stack.enter_context(tempfile.TemporaryDirectory())
        pair = []
        for checkout in (options.other.resolve(), ROOT.resolve()):
            pair.append(started(checkout, programs))
            stack.callback(pair[-1].close)
        found = compared((pair[0], pair[1]), options, table)
    print("\n".join(judged(found)))


if __name__ == "__main__":
    main()
