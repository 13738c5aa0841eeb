"""The spec: what a person wants, from ``spec.yaml`` to checked values."""
