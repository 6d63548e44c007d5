"""From data to sites: one fit, or thousands of them side by side.

`options` are what a user asks for. A data set passes through `functions` (checked, equal rows `folding` into one, a
request for each function by `planning`), `batching` (in windows, beside others of its kind), `samples` (padded),
`search_space` and `objectives` (hyperparameters are learned), `observations` or `dual` (what the rows say about f at
the points of `placement`), and leaves as part of a `Fitted` site. `batch_fit` is the way of one batch.
"""
