"""What must hold when something breaks: real processes, real files, faults on purpose.

`crashing.py` is the test build of the daemon: it kills itself at a named point (points.py) and
takes its time from its standard input (dials.py). `nursery.py` forks such processes from one that
has loaded the program already, so that a thousand starts are affordable.

`breaking.py` finds every function that works for one Session or one wake and lets it raise;
`disk.c` (compiled where there is a `cc`) lets writes and syncs of the database's files fail.

Longer forms, by environment variables:

- SCHEDULER_DAEMON_TEST_KILLS=1000: so many kills in test_random_kills.py (20 otherwise);
  SCHEDULER_DAEMON_TEST_SEED=N chooses its steps, what was taken is printed.
- SCHEDULER_DAEMON_TEST_CLOCK_RUNS=1000: so many random runs in test_clock_jumps.py (25 otherwise).
- SCHEDULER_DAEMON_TEST_HOST_RUNS=200: so many random runs in test_hosts.py (10 otherwise);
  SCHEDULER_DAEMON_TEST_SEED=N is the first one's seed.
- ACCEPTANCE_LONG=1: every kind of rule at every point of the crash matrix (two in turn otherwise),
  every function with every kind of exception (test_one_session_fails.py), every single write of a
  creation, and half a minute of a disk that fails (test_disk_errors.py).
- SCHEDULER_DAEMON_TEST_QUIET_SECONDS=60: how long each fault of test_files.py may repeat itself
  while the lines of the log are counted (4 otherwise).
"""
