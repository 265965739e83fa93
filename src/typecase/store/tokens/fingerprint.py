"""Fingerprint of a token set: which bytes these are, wherever they lie.

    fingerprint = xxh3-128 over [xxh3-128 of the .idx, xxh3-128 of the .bin]

The format has no checksum: a flipped bit in the `.bin` is another token and nothing more. The manifest of a set that typecase
made holds both file hashes, so its fingerprint costs nothing to know and one read of the files to verify. Size and time of
change cannot replace that read: an edit in place may leave both as they were.
"""

from __future__ import annotations

from pathlib import Path

from typecase.errors import FingerprintMismatch, NotFound
from typecase.store.atomic import content_hash
from typecase.store.manifest import NAME, Manifest, digest, read_manifest
from typecase.store.tokens.pair import TokenPair, find_pair


def fingerprint(pair: TokenPair) -> str:
    """Reads both files: 32 hexadecimal digits."""
    return fingerprint_of(content_hash(pair.idx), content_hash(pair.bin))


def fingerprint_of(idx_hash: str, bin_hash: str) -> str:
    """The fingerprint of a set whose file hashes are known."""
    return digest([idx_hash, bin_hash])


def promised_fingerprint(pair: TokenPair, manifest: Manifest) -> str:
    """The fingerprint that the manifest beside `pair` promises. Raises NotFound when it does not speak of these files."""
    hashes = {entry.name: entry.hash for entry in manifest.files}
    try:
        return fingerprint_of(hashes[pair.idx.name], hashes[pair.bin.name])
    except KeyError as error:
        raise NotFound(f"{pair.idx.parent / NAME} has no hash of {error.args[0]}; it belongs to other files") from None


def verify(path: Path | str, expected: str | None = None) -> str:
    """Reads the whole set at `path` and compares it with the fingerprint `expected`, by default the manifest's; returns it.

    Raises FingerprintMismatch when any bit differs, NotFound when there is nothing to compare with.
    """
    pair = find_pair(path)
    if expected is None:
        expected = promised_fingerprint(pair, read_manifest(pair.idx.parent))
    found = fingerprint(pair)
    if found != expected:
        raise FingerprintMismatch(
            f"{pair.prefix} has the fingerprint {found}, expected {expected}: its bytes changed after it was written, or it is"
            " another set; take a good copy, or build it again"
        )
    return found
