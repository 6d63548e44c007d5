"""From many sites to one posterior: a common kernel, common points, and one least-squares problem.

A module arrives as a `Member`, its site in a `SiteStore`; sites that lie elsewhere are another `SiteSource`. `pooling`
proposes a kernel, `points` chooses Z_*, `learning` improves the kernel by the `evidence`, `folding` stacks all sites
into a few rows, and `agreement` compares each with the rest. `build` is the whole way.
"""
