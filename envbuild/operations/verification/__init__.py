"""The use case ``verify``: runs, comparison, experiments, causes, the proof."""
