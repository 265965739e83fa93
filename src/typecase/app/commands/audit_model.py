"""Commands that audit a trained model: its weights, its copies, the joint verdict, a gate, and texts that hold bad tokens."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import orjson

from typecase.app.audit import copies as auditing_copies
from typecase.app.audit import marginal as auditing_marginal
from typecase.app.audit import page as audit_page
from typecase.app.audit import verdict as auditing_verdict
from typecase.app.audit import weights as auditing_weights
from typecase.app.audit.rows import PATH, chosen_rows, finish, ids_of, pairs, row_options, tell_prompts
from typecase.app.options import answer, json_option
from typecase.app.printing import table
from typecase.core.glitch.copies import Share
from typecase.core.glitch.gate import MEASURES
from typecase.errors import FixInput, NotFound
from typecase.lm.protocol import LM
from typecase.lm.tables import read_table
from typecase.store.atomic import write_json
from typecase.store.audit.files import visible
from typecase.store.audit.vocabulary import open_vocabulary

_RULES = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/os/schemas/sarif-schema-2.1.0.json"
_TOKENIZER = click.option("--tokenizer", help="Its tokenizer, where none lies beside or inside the model.")
_REFERENCES = click.option("--references", help="Ids that were surely never trained, with commas; found when not given.")
_SHARE = click.option(
    "--share", type=float, default=0.02, show_default=True, help="Share of ordinary tokens that are candidates."
)


@click.command(name="weights")
@click.argument("model")
@_TOKENIZER
@_REFERENCES
@click.option("--indicator", default="e_out_cosine", show_default=True, help="What ranks the tokens.")
@_SHARE
@click.option("--old-views", is_flag=True, help="Also the centred cosine and the one without the first component.")
@click.option("--input-matrix", help="Name of the input embedding, where several tensors could be it.")
@click.option("--output-matrix", help="Name of the output matrix.")
@row_options
@json_option
def weights_command(
    model: str, tokenizer: str | None, references: str | None, indicator: str, share: float, old_views: bool,
    input_matrix: str | None, output_matrix: str | None, out_table: Path | None, where: str | None, sort: str | None,
    top: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Rank the tokens of MODEL by how little their rows look trained: a folder, .safetensors, .bin or .gguf. Runs no model."""
    found = auditing_weights.audit_weights(
        model,
        tokenizer=tokenizer,
        references=None if references is None else sorted(ids_of(references, "--references")),
        main=indicator,
        share=share,
        old_views=old_views,
        input_name=input_matrix,
        output_name=output_matrix,
    )
    rows = chosen_rows(found.table, where, sort or "rank", top, "candidate")
    finish(found.header(), weights_lines(found), found.table, rows, out_table, where, as_json)


@click.command(name="verify")
@click.argument("model")
@click.option("-o", "--out", required=True, type=PATH, help="Folder of the answers; a run that was killed goes on from there.")
@click.option("--endpoint", help="Ask a server instead: http://host/v1#model, or a .toml with a [model] table.")
@_TOKENIZER
@_REFERENCES
@_SHARE
@click.option("--all", "everything", is_flag=True, help="Ask for every token.")
@click.option("--ids", help="Ask for these ids only, with commas.")
@click.option(
    "--protocol", type=click.Choice(["quick", "full"]), default="quick", show_default=True, help="full: as published."
)
@click.option("--limit", type=float, default=0.01, show_default=True, help="Verified below this chance.")
@click.option("--device", default="auto", show_default=True)
@click.option("--dtype", type=click.Choice(["float32", "bfloat16", "float16"]), default="float32", show_default=True)
@click.option("--seed", default=0, show_default=True, help="Of the controls and examples.")
@click.option("--quiet", is_flag=True, help="No progress.")
@row_options
@json_option
def verify_command(
    model: str, out: Path, endpoint: str | None, tokenizer: str | None, references: str | None, share: float, everything: bool,
    ids: str | None, protocol: Any, limit: float, device: str, dtype: Any, seed: int, quiet: bool, out_table: Path | None,
    where: str | None, sort: str | None, top: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Ask MODEL to repeat its most suspicious tokens. Ends with exit code 3 when it cannot repeat ordinary ones either."""
    found = auditing_copies.audit_copies(
        model,
        out,
        endpoint=None if endpoint is None else _endpoint(endpoint),
        tokenizer=tokenizer,
        references=None if references is None else sorted(ids_of(references, "--references")),
        share=share,
        everything=everything,
        ids=None if ids is None else ids_of(ids, "--ids"),
        which=protocol,
        limit=limit,
        device=device,
        dtype=dtype,
        seed=seed,
        progress=None if quiet or as_json else tell_prompts,
    )
    whole = found.weights.table
    for name in found.table.column_names[1:]:
        whole = whole.append_column(name, found.table.column(name))
    rows = chosen_rows(whole, where, sort or "rank", top, "verified")
    finish(found.header(), copies_lines(found), whole, rows, out_table, where, as_json)
    if found.void:
        sys.exit(3)


@click.command(name="marginal")
@click.argument("model")
@click.option("--texts", "file", required=True, type=PATH, help="Ordinary text: a file of lines, or .jsonl with a field text.")
@_TOKENIZER
@click.option("--positions", default=4096, show_default=True, help="Places in the texts to average over.")
@click.option("--device", default="auto", show_default=True)
@click.option("--dtype", type=click.Choice(["float32", "bfloat16", "float16"]), default="float32", show_default=True)
@click.option("--seed", default=0, show_default=True)
@row_options
@json_option
def marginal_command(
    model: str, file: Path, tokenizer: str | None, positions: int, device: str, dtype: Any, seed: int, out_table: Path | None,
    where: str | None, sort: str | None, top: int | None, as_json: bool,
) -> None:  # fmt: skip
    """How likely MODEL says each token in ordinary texts: about how often it was trained on it. Runs the model."""
    weights = auditing_weights.audit_weights(model, tokenizer=tokenizer)
    found = auditing_marginal.audit_marginal(
        model,
        list(_texts(file)),
        tokenizer=tokenizer,
        weights=weights,
        positions=positions,
        device=device,
        dtype=dtype,
        seed=seed,
    )
    lines = [
        f"{model}: mean chance over {found.positions:,} positions; median {found.median:.3g}",
        f"  lowest logits      {', '.join(map(str, found.lowest))} (at the mean hidden state)",
        f"  with the weights   {found.with_weights or 0:+.3f} (Spearman with {weights.main_indicator})",
    ]
    rows = chosen_rows(found.table, where, sort or "p_marginal", top, "true")
    finish(found.header(), lines, found.table, rows, out_table, where, as_json)


@click.command(name="report")
@click.argument("tables", nargs=-1, required=True, type=PATH)
@click.option("--wanted", help="Ids that must be trained, with commas.")
@click.option("--ids", "out_ids", type=PATH, help="Write lists of ids to mask, drop, replace, re-initialise, retrain: JSON.")
@click.option(
    "-o", "--out", type=PATH, help="Folder of a report: page with figures, Markdown, Parquet, JSON lines, lists of ids."
)
@click.option("--plain", is_flag=True, help="The report without page and figures: needs nothing but the base install.")
@click.option("--index", type=PATH, help="Index of the corpus (typecase index): where the worst tokens stand in it.")
@row_options
@json_option
def report_command(
    tables: tuple[Path, ...], wanted: str | None, out_ids: Path | None, out: Path | None, plain: bool, index: Path | None,
    out_table: Path | None, where: str | None, sort: str | None, top: int | None, as_json: bool,
) -> None:  # fmt: skip
    """Join TABLES (.parquet of audit tokenizer, corpus, weights, verify) into one decision for each token."""
    read = [auditing_verdict.read_whole(one) for one in tables]
    found = auditing_verdict.audit_report(read, wanted=ids_of(wanted))
    if index is not None:
        from typecase.app.search.searching import open_search  # half a second of imports, only where a corpus is searched

        with open_search(index) as search:
            found = audit_page.with_examples(found, search)
    if out_ids is not None:
        write_json(out_ids, found.lists())
    lines = verdict_lines(found, out_ids)
    if out is not None:
        basis = [(path.name, header) for path, (_, header) in zip(tables, read, strict=True)]
        made = audit_page.write_audit_report(found, out, basis=basis, pictures=not plain)
        lines += [f"report -> {made.page or made.folder / audit_page.TEXT}", f"  {pairs(made.lists)} ids in {out / 'ids'}"]
    rows = chosen_rows(found.table, where, sort, top, "decision in ('under_trained', 'suspect')")
    finish(found.header(), lines, found.table, rows, out_table, where, as_json)


@click.command(name="diff")
@click.argument("a", type=PATH)
@click.argument("b", type=PATH)
@row_options
@json_option
def diff_command(
    a: Path, b: Path, out_table: Path | None, where: str | None, sort: str | None, top: int | None, as_json: bool
) -> None:
    """Tokens on which two models of one tokenizer differ: two .parquet of audit report, verify or weights."""
    found = auditing_verdict.audit_diff(a, b)
    lines = [
        f"a {a}: {found.bad_a:,} of {found.num_ids:,}",
        f"b {b}: {found.bad_b:,}",
        f"  the same by {found.overlap:.3f} (Jaccard)"
        + ("" if found.correlation is None else f", ranks by {found.correlation:+.3f} (Spearman)"),
    ]
    finish(found.header(), lines, found.table, chosen_rows(found.table, where, sort, top, "true"), out_table, where, as_json)


@click.command(name="gate", epilog="Measures: " + "; ".join(f"{name}, {what}" for name, what in MEASURES.items()) + ".")
@click.argument("verdict", type=PATH)
@click.option("--fail-on", "budgets", multiple=True, required=True, help="MEASURE=MOST, a number of tokens or a percentage.")
@click.option("--baseline", type=PATH, help="An older verdict, for the measure new.")
@click.option("--allow", type=PATH, help='JSON list of {"i": id, "hex": bytes} that never count.')
@click.option("--sarif", type=PATH, help="Write the findings as SARIF 2.1.0.")
@json_option
def gate_command(
    verdict: Path, budgets: tuple[str, ...], baseline: Path | None, allow: Path | None, sarif: Path | None, as_json: bool
) -> None:
    """Check a VERDICT (.parquet of audit report) against budgets. Exit code 0 passed, 1 broken, 2 bad input, 3 void."""
    found = auditing_verdict.audit_gate(verdict, budgets, baseline=baseline, allowed=allow)
    if sarif is not None:
        write_json(sarif, sarif_of(found, verdict))
    lines = [
        f"{'pass' if f.passed else 'FAIL'}  {f.measure} {f.found:g}{'%' if f.is_share else ''}, at most {f.most:g}"
        + (f": {', '.join(map(str, f.first_ids[:8]))}" if f.first_ids and not f.passed else "")
        for f in found.findings
    ]
    answer(found, [*lines, "void: the model cannot repeat ordinary tokens"] if found.void else lines, as_json)
    if found.exit_code:
        sys.exit(found.exit_code)


@click.command(name="text")
@click.argument("file", type=PATH)
@click.option("--verdict", required=True, type=PATH, help=".parquet of audit report.")
@click.option("--tokenizer", required=True, help="The tokenizer that the verdict is of.")
@click.option("--decision", "decisions", multiple=True, default=("under_trained",), show_default=True, help="What to mark.")
@json_option
def text_command(file: Path, verdict: Path, tokenizer: str, decisions: tuple[str, ...], as_json: bool) -> None:
    """Mark the under-trained tokens of FILE: a text, or .jsonl with a field text."""
    found, _ = auditing_verdict.read_whole(verdict)
    if "decision" not in found.column_names:
        raise FixInput(f"{verdict} has no decisions: it is the table of one audit, join it with audit report")
    rows = found.select(["i", "decision"]).to_pylist()
    vocabulary = open_vocabulary(tokenizer)
    if len(rows) != vocabulary.num_ids:
        raise FixInput(f"{verdict} is of {len(rows):,} ids, {tokenizer} has {vocabulary.num_ids:,}: name its own tokenizer")
    wanted = {row["i"]: row["decision"] for row in rows if row["decision"] in decisions}
    marked, total = auditing_verdict.audit_text(vocabulary, wanted, _texts(file))
    body = [
        [str(m.i), visible(m.text)[:40], m.decision, f"{m.times:,}", " ".join(f"{line}:{at}" for line, at in m.places)]
        for m in marked
    ]
    times = sum(m.times for m in marked)
    lines = [f"{file}: {total:,} tokens, {times:,} of them are {' or '.join(decisions)} ({len(marked):,} different ones)"]
    if body:
        lines += ["", *table([["i", "token", "decision", "times", "first places"], *body])]
    answer({"file": str(file), "tokens": total, "marked": marked}, lines, as_json)


def _texts(file: Path) -> Iterator[str]:
    try:
        with file.open(encoding="utf-8", errors="replace", newline="\n") as opened:
            for number, line in enumerate(opened, 1):
                if file.suffix != ".jsonl":
                    yield line
                    continue
                try:
                    yield str(orjson.loads(line)["text"])
                except (orjson.JSONDecodeError, KeyError, TypeError) as error:
                    raise FixInput(f"{file} line {number} is no JSON object with a text ({error!r})") from None
    except OSError as error:
        raise NotFound(f"no text can be read from {file} ({error})") from None


def _endpoint(spec: str) -> LM:
    from typecase.lm.models import open_lm

    if not spec.endswith(".toml"):
        return open_lm(spec)
    if not Path(spec).is_file():
        raise NotFound(f"no file {spec}: it should hold a [model] table")
    table = read_table(Path(spec))
    return open_lm(table.get("model", table), where=Path(spec).parent)


def weights_lines(found: auditing_weights.WeightsAudit) -> list[str]:
    """The audit of weights on one screen."""
    main = found.spreads[found.main_indicator]
    how = "given" if found.references.method == "given" else f"found among {found.references.method}"
    lines = [
        f"{found.model}: {found.num_rows:,} rows of {found.width}, {found.output_storage};"
        f" {'tied' if found.tied else 'untied'} ({found.evidence}); {found.num_ids:,} ids",
        f"  rows               {pairs(found.rows)}   identical to another {found.identical:,}",
        f"  references         {', '.join(map(str, found.references.ids[:12]))} ({how})",
        f"  {found.main_indicator:<18} mean {main.mean:.4g} ± {main.deviation:.4g}, median {main.median:.4g},"
        f" lowest {main.lowest:.4g}; {found.share:.1%} of ordinary tokens up to {found.threshold:.4g}",
        f"  candidates         {found.candidates:,}; as published counts them {found.tested_as_published:,}",
    ]
    if found.plateau is not None:
        p = found.plateau
        lines.append(f"  plateau            {p.size:,} rows up to {p.high:.4g}, the next at {p.after:.4g}")
    if found.padding:
        lines.append(f"  padding            {pairs(found.padding)}: rows beyond the tokenizer")
    if found.agreement is not None:
        a = found.agreement
        lines.append(
            f"  unused slots       {found.structural:,} stand together; from them the same ranking"
            f" by {a.spearman:.3f} (Spearman), the lowest 2 % by {a.jaccard:.2f} (Jaccard)"
        )
    return [*lines, *(f"  note: {note}" for note in (*found.notes, *found.warnings))]


def copies_lines(found: auditing_copies.CopiesAudit) -> list[str]:
    """The audit by prompts on one screen."""
    c = found.controls
    lines = [
        *weights_lines(found.weights),
        f"  asked              {found.tested:,} tokens, forms {', '.join(found.forms)}; {found.tokens_read:,} tokens read",
        f"  verified           {found.verified:,} cannot be repeated (p < {found.limit:g}); {found.borderline:,} borderline",
        f"  blocks             {'   '.join(f'{b.hits:,}/{b.trials:,}' for b in found.blocks[:12])}",
        f"  controls           frequent tokens: median p {c.can_copy:.2f}   drawn ones verified {_share(c.false_verified)}"
        f"   known dead verified {_share(c.dead_verified)}   same with other examples {_share(c.stable)}",
        f"  elsewhere          {found.outside[0]:,.0f} to {found.outside[1]:,.0f} more of {found.not_asked:,} not asked (95 %)",
    ]
    if found.unanswered:
        lines.append(f"  unanswered         {found.unanswered:,}: run again to ask them")
    if found.void:
        lines.append("  VOID: the model cannot repeat ordinary tokens either; nothing follows from this run")
    return lines


def _share(share: Share) -> str:
    return f"{share.hits}/{share.trials} ({share.low:.0%} to {share.high:.0%})"


def verdict_lines(found: auditing_verdict.Verdicts, out_ids: Path | None) -> list[str]:
    """The joint verdict on one screen."""
    lines = [
        f"{found.num_ids:,} ids, by {', '.join(found.sides)}" + ("; the prompts are void and left out" if found.void else ""),
        f"  decisions          {pairs(found.decisions)}",
        f"  advice             {pairs(found.advice)}",
    ]
    if found.origins:
        lines.append(f"  origins            {pairs(found.origins)} (of the under-trained)")
    if found.correlations:
        shown = "   ".join(f"{name} {value:+.3f}" for name, value in found.correlations.items())
        lines.append(f"  with log(1+count)  {shown} (Spearman)")
    if found.unexpected:
        lines.append(f"  seen often, and under-trained: {', '.join(map(str, found.unexpected[:8]))}")
    if found.surprising:
        lines.append(f"  never counted, and repeated: {', '.join(map(str, found.surprising[:8]))}")
    return lines if out_ids is None else [*lines, f"lists of ids -> {out_ids}"]


def sarif_of(found: auditing_verdict.GateResult, verdict: Path) -> dict[str, Any]:
    """The gate's findings as a SARIF 2.1.0 log (OASIS)."""
    results = [
        {
            "ruleId": f.measure,
            "level": "note" if f.passed else "error",
            "message": {"text": f"{MEASURES[f.measure]}: {f.found:g}{'%' if f.is_share else ''}, at most {f.most:g}"},
            "locations": [{"physicalLocation": {"artifactLocation": {"uri": verdict.as_posix()}}}],
            "properties": {"ids": list(f.first_ids)},
        }
        for f in found.findings
    ]
    rules = [{"id": f.measure, "shortDescription": {"text": MEASURES[f.measure]}} for f in found.findings]
    driver = {"name": "typecase audit gate", "rules": rules}
    return {"$schema": _RULES, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}
