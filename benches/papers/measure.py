#!/usr/bin/env python3
"""Measures a figure of LOCO'26 and draws it: `benches/papers/run.sh` builds what it needs and calls it.

Writes FIGURE-FABRIC.csv, with a line for each run, and FIGURE-FABRIC.svg, with the geometric means. A peer that is missing or
that fails has a line with the reason, and is named in the drawing.
"""

import argparse
import csv
import math
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

import draw
import figures
from sides import Failed, Missing, Sides

ROOT = Path(__file__).resolve().parents[2]
# The mutations that take the store's fence away.
UNFENCED = ("update-without-fence",)
FIELDS = ["figure", "fabric", "panel", "series", "x_name", "x", "run", "value", "unit", "note"]


def numbers(text):
    """Reads numbers that commas separate."""
    return [int(word) for word in text.split(",")]


def arguments():
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="run.sh", description="Measure a figure of LOCO'26 beside the peers of the paper, and draw it.")
    parser.add_argument("figure", metavar="FIG", choices=["15", "17", "5", "19", "4", "fence"], help="15: barrier and broadcast; 17 or 5: stores; 19 or 4: locks and transactions; fence: the cost of the store's fence")
    parser.add_argument("--short", action="store_true", help="fewer and shorter runs, nodes, threads and keys, for a machine of a few cores")
    parser.add_argument("--fabric", choices=["shm", "tcp", "verbs"], default="shm", help="network of loco, and that of UCX (default shm)")
    parser.add_argument("--nodes", type=numbers, metavar="N,N", help="numbers of nodes (2,4,8,16; short: 2,4)")
    parser.add_argument("--threads", type=numbers, metavar="N,N", help="threads of a node (1,4,16; short: 1,2)")
    parser.add_argument("--loads", type=numbers, metavar="N,N", help="broadcasts outstanding, windows for `fence` (1,4,16,64,256; short: 1,16,128)")
    parser.add_argument("--seconds", type=float, metavar="S", help="time of a run (20; short: 0.5; memtier_benchmark takes whole seconds)")
    parser.add_argument("--runs", type=int, metavar="N", help="runs of which the geometric mean is taken (5; short: 3)")
    parser.add_argument("--key-space-mb", type=int, metavar="MB", help="keys and values of the stores (10; short: 1)")
    parser.add_argument("--accounts", type=int, metavar="N", help="accounts of the transactions (100000000; short: 100000)")
    parser.add_argument("--out", type=Path, default=Path("target/papers"), metavar="DIR", help="folder of the results (target/papers)")
    parser.add_argument("--loco", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--unfenced", type=Path, metavar="PATH", help="a loco whose store does not fence, for `fence`")
    parser.add_argument("--build-unfenced", action="store_true", help="build that loco, in target/papers/unfenced")
    args = parser.parse_args()
    usual = dict(nodes=[2, 4, 8, 16], threads=[1, 4, 16], loads=[1, 4, 16, 64, 256], seconds=20.0, runs=5, key_space_mb=10, accounts=100_000_000)
    short = dict(nodes=[2, 4], threads=[1, 2], loads=[1, 16, 128], seconds=0.5, runs=3, key_space_mb=1, accounts=100_000)
    for name, value in (short if args.short else usual).items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    return args


def build_unfenced():
    """Builds loco without the store's fence from the working tree's commit, by mutations of tools/mutants. Returns its path."""
    # Python has it since 3.11, and nothing else here needs it.
    import tomllib

    tree = ROOT / "target/papers/unfenced"
    # A folder that somebody removed is registered still.
    subprocess.run(["git", "-C", ROOT, "worktree", "prune"], check=True)
    if tree.exists():
        subprocess.run(["git", "-C", ROOT, "worktree", "remove", "--force", tree], check=True)
    subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--detach", tree, "HEAD"], check=True)
    mutations = tomllib.loads((ROOT / "tools/mutants/mutations/kv.toml").read_text())["mutation"]
    wanted = [mutation for mutation in mutations if mutation["name"] in UNFENCED]
    if len(wanted) != len(UNFENCED):
        sys.exit(f"tools/mutants/mutations/kv.toml lacks one of {', '.join(UNFENCED)}")
    for mutation in wanted:
        path = tree / mutation["file"]
        text = path.read_text()
        if text.count(mutation["find"]) != 1:
            sys.exit(f"the mutation {mutation['name']} does not fit {mutation['file']}: cargo test -p loco-mutants")
        path.write_text(text.replace(mutation["find"], mutation["replace"]))
    # A folder of its own: cargo would take one build for the other.
    target = tree / "target"
    command = ["cargo", "build", "--release", "--quiet", "--package", "loco-rdma-cli"]
    subprocess.run(command, cwd=tree, env={**os.environ, "CARGO_TARGET_DIR": str(target)}, check=True)
    return target / "release/loco"


def geometric_mean(values):
    """Returns the geometric mean of positive numbers."""
    return math.exp(sum(math.log(value) for value in values) / len(values))


def machine():
    """Returns what the figures depend on, in a line."""
    model = next((line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")), platform.machine())
    return f"{model}, {os.cpu_count()} processors, Linux {platform.release().split('-')[0]}"


def main():
    """Measures the panels of a figure in turn, and writes the results as they come."""
    # The servers end with this program, also when it is told to end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    args = arguments()
    name = figures.SAME.get(args.figure, args.figure)
    unfenced = build_unfenced() if args.build_unfenced else args.unfenced
    axes = figures.Axes(args.nodes, args.threads, args.loads, args.key_space_mb, args.accounts)
    sides = Sides(args.loco.resolve(), unfenced and unfenced.resolve(), args.fabric, args.seconds)
    args.out.mkdir(parents=True, exist_ok=True)
    stem = args.out / f"{name}-{args.fabric}"
    load = f"load {os.getloadavg()[0]:.1f}"
    about = f"{machine()}; fabric {args.fabric}; {args.runs} runs of {args.seconds:g} s, geometric mean; {load} when it began"
    print(about, file=sys.stderr)
    gone = set()
    try:
        with open(f"{stem}.csv", "w", newline="", encoding="utf-8") as file:
            file.write(f"# {about}\n")
            table = csv.DictWriter(file, FIELDS)
            table.writeheader()
            for panel in figures.of(name, axes, sides):
                common = dict(figure=name, fabric=args.fabric, panel=panel.title, x_name=panel.x_name, unit=panel.y_name)
                for series in panel.series:
                    if series.left_out:
                        table.writerow({**common, "series": series.name, "note": f"left out: {series.left_out}"})
                        gone.add(f"{series.name}: {series.left_out}")
                for x in panel.x:
                    # The sides take turns, so that a change of the machine meets all of them.
                    live = [series for series in panel.series if not series.left_out]
                    label = panel.labels.get(x, x)
                    found = {series.name: [] for series in live}
                    for run in range(1, args.runs + 1):
                        for series in list(live):
                            base = {**common, "series": series.name, "x": label, "run": run}
                            try:
                                value = series.measure(x)
                                if not value > 0:
                                    raise Failed(f"a figure of {value}")
                                found[series.name].append(value)
                                table.writerow({**base, "value": f"{value:.4g}"})
                            except (Missing, Failed) as error:
                                what = "missing" if isinstance(error, Missing) else "failed"
                                table.writerow({**base, "note": f"{what}: {error}"})
                                where = f", {panel.title}, {panel.x_name} {label}" if what == "failed" else ""
                                gone.add(f"{series.name}{where}: {error}")
                                live.remove(series)
                            file.flush()
                    means = "; ".join(f"{which} {geometric_mean(values):,.0f}" for which, values in found.items() if values)
                    print(f"{panel.title}, {panel.x_name} {label}: {means or 'nothing'}", file=sys.stderr)
    finally:
        sides.close()
    draw.draw(f"{stem}.csv", f"{stem}.svg")
    for line in sorted(gone):
        print(f"not measured: {line}", file=sys.stderr)
    print(f"{stem}.csv\n{stem}.svg")


if __name__ == "__main__":
    main()
