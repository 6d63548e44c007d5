"""What merging is measured against. Nothing inside the library imports it."""
