"""Other libraries' fitted models as modules."""
