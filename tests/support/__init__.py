"""What the tests share: makers of small wheels and Debian packages, and an HTTP server that misbehaves on request."""
