"""The checks of tests/disk/run.py: a module for each subject."""
