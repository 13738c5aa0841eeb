"""The operating-system layer: Debian packages bootstrapped from nothing, or the file system of a base image."""
