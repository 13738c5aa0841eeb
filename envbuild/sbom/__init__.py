"""Bills of materials: a lock, and what is known about its files, into CycloneDX and SPDX documents. Pure."""
