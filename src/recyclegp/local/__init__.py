"""From data to a site: one fit, or thousands of them side by side.

A row of data passes through `request` (checked), `samples` (padded beside others), `search_space` and `objectives`
(hyperparameters are learned), `observations` or `dual` (what the rows say about f at the points of `placement`), and
leaves as part of a `Fitted` site. `batch_fit` is the whole way.
"""
