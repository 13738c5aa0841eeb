"""The numbers in docs/explanation/benchmarks.md: medians and ratios against peers, in one run on one machine."""
