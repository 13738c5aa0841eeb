"""What a run produced: the tensors of its saved models, and its metrics by step."""
