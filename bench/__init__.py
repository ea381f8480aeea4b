"""The measured claims, each one command: `python -m bench NAME`; no test is a measurement."""
