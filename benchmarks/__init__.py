"""The numbers in the README, re-runnable: medians and ratios against peers, measured in one run on one machine."""
