"""The network as this user reaches it: one HTTP client, the configuration of pip, uv, curl and the system."""
