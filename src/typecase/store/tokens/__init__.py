"""Token sets: `.bin/.idx` of any maker, read, written, merged, examined, repaired."""
