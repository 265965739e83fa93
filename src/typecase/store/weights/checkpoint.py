"""Checkpoint: the input embedding, the output matrix and its bias among the files of a model.

    folder   *.safetensors, else *.bin/*.pt of PyTorch, else *.gguf; several files by their index, or all of them
    file     .safetensors, .bin, .pt, .pth, .gguf (of a split GGUF the first)

A matrix is found by its name, then checked by its shape; where no name is known, by its shape alone. More than one is an
error with the list, never a guess: tables per layer look like an embedding. Tied by evidence: no output matrix, or one of the
same bytes, means tied; two different ones mean untied; what the config says otherwise is reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from typecase.errors import BadQuery, CorruptStore, NotFound
from typecase.store.gguf import read_keys
from typecase.store.packages import SCHEME, one_file
from typecase.store.weights import gguf, pickled, safetensors
from typecase.store.weights.matrix import Entry, Matrix, open_matrix, same_bytes
from typecase.store.weights.storage import F32

_INPUT = re.compile(
    r"(^|\.)(embed_tokens|wte|embed_in|word_embeddings|tok_embeddings|token_embd|embedding|embeddings|shared)\.weight$"
)
_OUTPUT = re.compile(r"(^|\.)(lm_head|embed_out|ff_out|output|output_layer|head)\.weight$")
_LAYER = re.compile(r"(^|\.)(layers?|h|blocks?|blk)\.\d+\.|(^|\.)(position|per_layer|visual|vision)")
_TORCH = (".bin", ".pt", ".pth")
_SPLIT = re.compile(r"-00001-of-(\d{5})\.gguf$")
_LEAST_BIAS = 1e-3

_READERS: Mapping[str, Callable[[Path], dict[str, Entry]]] = {
    ".safetensors": safetensors.read_entries,
    ".gguf": gguf.read_entries,
    **dict.fromkeys(_TORCH, pickled.read_entries),
}


@dataclass(frozen=True, slots=True, eq=False)
class Checkpoint:
    """`output` is the input matrix itself where they are tied; `evidence` says why they are taken to be, or not.

    `bias` float32 (V,) of the output, None where there is none or it is nothing (norm below 1e-3).
    """

    where: str
    input: Matrix
    output: Matrix
    tied: bool
    evidence: str
    bias: F32 | None
    notes: tuple[str, ...]

    @property
    def num_rows(self) -> int:
        return self.output.num_rows


@dataclass(frozen=True, slots=True)
class _Config:
    """What the model says of itself; None where it does not."""

    width: int | None = None
    vocabulary: int | None = None
    tied: bool | None = None


def open_checkpoint(
    path: str | Path, *, input_name: str | None = None, output_name: str | None = None, num_ids: int | None = None
) -> Checkpoint:
    """Finds and maps the matrices; `num_ids` (of the tokenizer) is the least number of rows, when it is known.

    Raises NotFound without weights or embedding, BadQuery where several would do, CorruptStore for a file that cannot be read.
    """
    files, entries = _entries(path)
    config = _config(files[0])
    rows = num_ids or config.vocabulary or 1
    name = input_name or _found(entries, _INPUT, rows, config.width, files[0], "input embedding", needed=True)
    if name is None or name not in entries:
        raise NotFound(f"{path} has no tensor {name!r}; it has, for example, {', '.join(sorted(entries)[:8])}")
    matrix = open_matrix(entries[name])
    rest = {key: entry for key, entry in entries.items() if key != name}
    head = output_name or _found(rest, _OUTPUT, rows, matrix.width, files[0], "output matrix", needed=False)
    if head is not None and head not in entries:
        raise NotFound(f"{path} has no tensor {head!r} to take for the output matrix")
    output = matrix if head is None else open_matrix(entries[head])
    if output.width != matrix.width or output.num_rows < rows:
        raise BadQuery(
            f"{head} has {output.num_rows:,} rows of {output.width}, the embedding {matrix.num_rows:,} of {matrix.width}"
        )
    tied, evidence = _tied(head, matrix, output)
    notes = []
    if config.tied is not None and config.tied != tied:
        notes.append(
            f"the config says {'tied' if config.tied else 'untied'}, the files {'tied' if tied else 'untied'}: {evidence}"
        )
    bias = _bias(entries, head, output)
    return Checkpoint(str(path), matrix, matrix if tied else output, tied, evidence, bias, tuple(notes))


def open_layers(path: str | Path, *, least: int = 2) -> list[Matrix]:
    """Every matrix of a model with `least` rows and columns or more, by name. Raises as `open_checkpoint`."""
    _, entries = _entries(path)
    return [open_matrix(e) for _, e in sorted(entries.items()) if len(e.shape) == 2 and min(e.shape) >= least]


def _entries(path: str | Path) -> tuple[list[Path], dict[str, Entry]]:
    files = _files(locate(path))
    return files, {name: entry for file in files for name, entry in _READERS[file.suffix](file).items()}


def locate(path: str | Path) -> Path:
    """The folder or file that `path` or `package:NAME/FILE` names. Raises NotFound."""
    if str(path).startswith(SCHEME):
        return one_file(str(path), "weights file", lambda file: file.suffix in _READERS)
    if not Path(path).exists():
        raise NotFound(f"there is no model at {path}: give a folder of a checkpoint or a .safetensors, .bin or .gguf file")
    return Path(path)


def _files(path: Path) -> list[Path]:
    if path.is_file():
        if path.suffix not in _READERS:
            raise NotFound(f"{path} is no weights file known here: {', '.join(_READERS)}")
        split = _SPLIT.search(path.name)
        if split is None:
            return [path]
        total = int(split[1])
        return [path.with_name(path.name.replace("-00001-of-", f"-{k:05d}-of-")) for k in range(1, total + 1)]
    for suffixes in ((".safetensors",), _TORCH, (".gguf",)):
        found = sorted(file for file in path.iterdir() if file.suffix in suffixes and _is_weights(file))
        indexes = sorted(path.glob(f"*{suffixes[0]}.index.json"))
        if indexes:
            return _indexed(indexes[0])
        if found:
            firsts = [file for file in found if _SPLIT.search(file.name)]
            if suffixes == (".gguf",) and len(found) > 1 and len(firsts) != 1:
                raise BadQuery(f"{path} has {len(found)} GGUF files: name one of {', '.join(f.name for f in found[:6])}")
            return _files(firsts[0]) if firsts else found
    raise NotFound(f"{path} has no weights: no .safetensors, .bin, .pt, .pth or .gguf file lies in it")


def _is_weights(file: Path) -> bool:
    """Not what lies beside the weights of a training run."""
    return not any(word in file.name for word in ("optimizer", "scheduler", "training_args", "rng_state", "scaler"))


def _indexed(index: Path) -> list[Path]:
    try:
        names = sorted(set(orjson.loads(index.read_bytes())["weight_map"].values()))
    except (orjson.JSONDecodeError, KeyError, AttributeError) as error:
        raise CorruptStore(f"{index} is no index of weights files ({error!r})") from None
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise NotFound(f"{index} names {len(names)} files, of which {', '.join(missing[:4])} are not there: download the rest")
    return [index.parent / name for name in names]


def _config(file: Path) -> _Config:
    if file.suffix == ".gguf":
        keys = read_keys(file)
        width = keys.get(f"{keys.get('general.architecture')}.embedding_length")
        tokens = keys.get("tokenizer.ggml.tokens")
        return _Config(width, len(tokens) if tokens else None)
    path = file.parent / "config.json"
    if not path.is_file():
        return _Config()
    try:
        config: dict[str, Any] = orjson.loads(path.read_bytes())
    except orjson.JSONDecodeError as error:
        raise CorruptStore(f"{path} is no JSON ({error})") from None
    inner = config.get("text_config") or config
    width = next((inner[name] for name in ("hidden_size", "n_embd", "d_model", "dim") if name in inner), None)
    tied = inner.get("tie_word_embeddings", config.get("tie_word_embeddings", inner.get("weight_tying")))
    return _Config(width, inner.get("vocab_size"), tied)


def _found(
    entries: Mapping[str, Entry], pattern: re.Pattern[str], rows: int, width: int | None, file: Path, what: str, *, needed: bool
) -> str | None:
    named = [name for name in entries if pattern.search(name) and not _LAYER.search(name)]
    fitting = [name for name in named if _fits(entries[name], rows, width)]
    if not named and needed:
        fitting = [name for name in entries if rows > 1 and not _LAYER.search(name) and _fits(entries[name], rows, width)]
    if len(fitting) == 1:
        return fitting[0]
    option = "--input-matrix" if needed else "--output-matrix"
    if fitting:
        listed = ", ".join(f"{name} {entries[name].shape}" for name in sorted(fitting)[:8])
        raise BadQuery(f"several tensors could be the {what} of {file.parent}: {listed}. Name one with {option}")
    if named:
        listed = ", ".join(f"{name} {entries[name].shape}" for name in sorted(named)[:8])
        raise BadQuery(
            f"no {what} of {rows:,} rows or more (width {width}) in {file.parent}, only {listed}: another tokenizer?"
        )
    if needed:
        raise NotFound(f"no tensor in {file.parent} looks like an {what}: name it with {option}")
    return None


def _fits(entry: Entry, rows: int, width: int | None) -> bool:
    return len(entry.shape) == 2 and entry.shape[0] >= rows and width in (None, entry.shape[1])


def _tied(head: str | None, matrix: Matrix, output: Matrix) -> tuple[bool, str]:
    if head is None:
        return True, "there is no output matrix"
    if same_bytes(matrix, output):
        return True, f"{head} has the bytes of {matrix.name}"
    return False, f"{head} differs from {matrix.name}"


def _bias(entries: Mapping[str, Entry], head: str | None, output: Matrix) -> F32 | None:
    entry = entries.get(f"{(head or '').removesuffix('.weight')}.bias")
    if entry is None or entry.shape != (output.num_rows,):
        return None
    bias = open_matrix(entry).rows(0, 1)[0]
    return bias if float(np.linalg.norm(bias)) > _LEAST_BIAS else None
