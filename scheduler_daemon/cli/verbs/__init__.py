"""The verbs, a module each: USAGE, ABOUT and EXAMPLES for its help, options() and run()."""
