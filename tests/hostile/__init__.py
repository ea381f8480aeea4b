"""Peers, users and files that mean harm: what they may not reach, and what they cost others."""
