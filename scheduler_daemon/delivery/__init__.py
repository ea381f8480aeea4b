"""Pure planning of what is said: which follow-ups, in what words, and after what pause again."""
