"""The daemon in a whole virtual machine, whose clock may be set and whose power may be cut.

Takes long, and only runs where SCHEDULER_DAEMON_TEST_VM names a folder that `build_image.sh` made:
docs/systemd.md.
"""
