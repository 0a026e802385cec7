"""Files that are checked before they are believed: one home for every format."""
