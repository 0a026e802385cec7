"""Methods compared on steps that they have not seen, and change held against shuffled dates."""
