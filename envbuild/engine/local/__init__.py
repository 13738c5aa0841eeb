"""Build steps without any container engine, in namespaces of the Linux kernel."""
