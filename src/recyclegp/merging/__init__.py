"""From many sites to one posterior: a common kernel, common points, and one least-squares problem; begin at `build`."""
