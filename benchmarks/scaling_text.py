"""The words of docs/scaling.md that do not depend on what was measured."""

HEAD = """# Scaling: a billion rows, on paper

<!-- written by benchmarks/scaling.py; do not edit -->

Nobody has run this. The largest merge that was measured has [10⁷ rows](howto-big-data.md#what-it-costs) on one
machine. This page says what a thousand times more should cost, stage by stage, from a cost model whose rates were
measured in small runs: 10⁹ rows in 10⁶ modules, on 100 workers of one core each or on 8 GPUs. It says which part of
the machinery gives way first, and what slow or dying workers add. Expect the totals to be right within a factor of
two or three, and the order of the bottlenecks to be right.

```bash
python benchmarks/scaling.py --measure --json benchmarks/results/scaling.json       # a few minutes of one core
python benchmarks/scaling.py --show benchmarks/results/scaling.json --docs docs     # this page
```

## In short
"""

COUNTED = """## What is counted

K modules of n rows publish M_k points each; the ensemble has M_* points; a flop is an addition or a multiplication, a
number has 8 bytes. [Use a cluster](clusters.md) describes the machinery: a task fits the modules of one file; a
reduction is a task for each file, and a tree of joins of eight answers each. The formulas are derived line by line in
`benchmarks/scaling_model.py`.

| what | how much |
|---|---|
| one fit, at each evaluation | 10 n M_k² flops, n M_k kernel entries (exact: n³ and n²) |
| a module in its file | 8(M_k D + M_k² + M_k + 1) bytes, and 160 of facts about it |
| evidence, first pass, each module | 3 M_k M_*² + 5 M_k² M_* flops |
| its gradient, second pass, each module | 6 M_k M_*² + 15 M_k² M_* flops |
| fold, each module | 3 M_k M_*² + 2 M_k² M_* flops; each join of two triangles 10/3 M_*³ |
| choice of points | a pool of 8,192 candidates for every 8,192 − M_* points, 8,192 M_*² flops each |
| client, at each evaluation | 11/3 M_*³ flops |
| an answer, on its way up | 8 M_*² bytes |
| the basis, on its way down to each worker | 8 M_*² bytes for the first pass, twice that for the second |
| reductions | two for each evaluation, and 7: mean, two folds, agreement, points, region, a first kernel |

Within a stage, arithmetic, scheduler, storage and network overlap, so that the slowest of them counts; sending the
basis, the client's own work and the top of the tree are added to it.
"""

CHANGES = """### What would have to change then

- **Fewer, larger tasks: possible today.** `per_task` decides how many modules share a file, and one file is one task
  in every reduction. About K/(8 W) is right (below). The default, at most 64, is made for laptops and small clusters;
  an engine that knew its workers could choose.
- **Answers joined where they are made.** A worker that adds up all its files before it answers would send one message
  of 8 M_*² bytes for each reduction, and tasks would be as many as workers, whatever K is.
- **Files with a home.** A worker that is asked for the same files in each reduction would read them once. It needs
  K/W modules in memory (340 MB for 10⁴ modules of 64 points; the 64 MiB of today are a constant in `engines/store`),
  and somebody else to take over when it dies.
- **Modules merged on GPUs.** The reduction is large matrix products, which GPUs are good at; `merge(device="cuda")`
  does it with one. Eight would need a store for each, and one sum over eight answers.
- **A pyramid.** A thousand ensembles of a thousand modules each, published with `to_module`, and merged: the client's
  list, the scheduler and the tree have a thousand entries at each level, and levels need not wait for each other. It
  loses what each ensemble's points cannot express: 0.00006 nats per point in [the one experiment we
  have](howto-big-data.md#parts-that-are-neighbours). From 10⁷ modules on this is the way.
- **Fewer evaluations on everything.** Learning dominates all other stages because each evaluation asks all modules. A
  kernel that is learned from a tenth of them, and only finished on all, would save most of it; today a first kernel
  is learned from about 512 pseudo-observations only.
- **More points** cost M_*², in every stage. A function that needs far more than 4,096 points is better cut into
  regions, each with an ensemble of its own.
"""

SIMULATED = """## Slow, noisy and lost workers

The tables above assume that all workers are alike and live for ever. `benchmarks/scaling_simulation.py` plays the
same run (a map of fits, then 80 reductions, each of which waits for its last task) with 100 workers that are not:
ideally it takes {ideal}. Noise is lognormal, of mean 1, with standard deviation σ of its logarithm; it belongs to the
task (more rows, more evaluations), or (hiccups) to the attempt. A scheduler hands out a task each millisecond. A lost
worker is replaced after a minute; what it was working on is repeated (answers of a reduction that wait there to be
joined would be, too; that is not simulated). Numbers are makespans relative to the ideal, means of {seeds} seeds; a
run that takes 20 times as long is given up.
"""

ASSUMED = """## How far to believe it

- **Measured**: seconds of each stage on one core of an ordinary server, with M_* up to 4,096 but K up to some
  thousands only; the client's seconds and bytes per member, up to 16,384 members; tasks and messages of Dask on one
  machine with one and two workers, where scheduler, client and workers share two cores with other work. On a machine
  of its own the scheduler is faster.
- **Extrapolated**: K from thousands to millions. Work on modules is a sum over modules, so that this is safe for
  arithmetic; it is least safe for the scheduler, which has never been asked for a million tasks here.
- **GPU**: three runs on one NVIDIA H200 (`benchmarks/results/gpu.json`, by `benchmarks/gpu.py`): fits of 200 rows at
  3 points give seconds per kernel entry, exact fits of 200 rows seconds per flop of small matrices, an exact merge of
  16,384 pseudo-observations seconds per flop of large ones. Three numbers for three rates leave nothing to check them
  with. Fits of 1,000 rows at 16 or 64 points, and reductions, were not measured there; the rate per entry has all in
  it that small fits cost beside, and is more likely too slow. The choice of points there is assumed altogether (100
  µs for a step, 2 TB/s).
- **Assumed**: 10 Gbit/s for each worker and for the shared folder, 0.5 ms between machines; 20 GB/s and 0.05 ms
  inside the machine with the GPUs, whose modules stay in their memory; 40 evaluations; fits with `method="collapsed"`
  that take as many evaluations as the measured ones; one input file server; nobody else uses any of it.
- **Left out**: reading and splitting the rows before they are partitions; the first kernel (seconds); `trust` and
  `owners`, which are off for partitions of one's own data; the seconds in which a cluster starts.
"""
