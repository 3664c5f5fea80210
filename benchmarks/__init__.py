"""Measurements beside Apache's own servers. How to run and read them: README.md in this folder."""
