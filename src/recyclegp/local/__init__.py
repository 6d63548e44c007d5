"""From data to sites, one fit or thousands of them side by side; `batch_fit` is the way of one batch."""
