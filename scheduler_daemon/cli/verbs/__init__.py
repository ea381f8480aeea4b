"""The verbs of schedctl, a module each, with USAGE, EXAMPLES, options(parser) and run(args)."""
