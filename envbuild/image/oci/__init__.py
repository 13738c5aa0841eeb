"""OCI image layouts, byte for byte."""
