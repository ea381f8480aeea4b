"""Durable reminders for AI agents. Importing this package acts on nothing."""

__version__ = "0.1.0"
