"""Programs of other people that envbuild runs as they are; see docs/explanation/examples.md."""
