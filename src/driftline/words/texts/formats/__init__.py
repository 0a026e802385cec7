"""Formats of files with texts in them: a module for each, with a `FORMAT`; see `file_formats`."""
