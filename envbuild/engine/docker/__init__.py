"""The adapter for Docker and every engine that speaks its API (Docker 20.10 and newer, podman)."""
