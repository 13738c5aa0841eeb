"""A client for container registries: the OCI distribution specification 1.1, and Docker's authentication of it.

Why our own: see CONTRIBUTING.md, "Registry client". Connections, proxies, certificates are ``net``'s; credentials are
found by docker's SDK. Nothing here knows locks, stores or engines: the command line passes files and gets bytes.
"""
