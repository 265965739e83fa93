"""Near-equal texts: words, shingles, signatures, buckets, and the comparison that decides.

words     text -> hashes of its words, any script
sketch    words -> shingles -> signature -> a key for each band; the scheme that a threshold asks for
crowd     shingles that many documents share, and what is a document's own
keepers   documents in keep order -> who joins whom, every join measured on the shingles themselves
grams     word n-grams of some texts, looked up in others
"""
