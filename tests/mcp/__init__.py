"""Tests of the tools of agents."""
