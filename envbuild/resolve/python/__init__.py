"""Python packages: requirements to exact wheels for a target, whatever the host runs."""
