"""Models fitted elsewhere, as modules: one file for each library, imported when it is asked for."""
