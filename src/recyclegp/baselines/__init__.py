"""What merging is compared with: the paper's own algorithm, committees of experts, central models."""
