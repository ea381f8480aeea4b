"""The units under a real systemd, in namespaces of the tests' own (docs/systemd.md)."""
