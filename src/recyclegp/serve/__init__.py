"""A page to look at: modules on a local web page, for the command `recyclegp serve`."""
