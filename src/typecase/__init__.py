"""typecase: see, search, edit, rate, refine, select and audit the exact tokens that a model trains on.

    import typecase as tc

    recipe = tc.Recipe("web", tc.Ingest(inputs=("crawl/*.jsonl.zst",)), tc.Rate(), tc.Refine(), tc.Dedup(), …)
    *_, tokens = recipe.run("work", engine=tc.Local(8))
    tc.open(tokens.folder).read(0)

Every public name is in `__all__`; each is imported when it is first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typecase.app.ablate.ablating import ablate as ablate
    from typecase.app.agree.agreeing import agree as agree
    from typecase.app.agree.comparing import compare as compare
    from typecase.app.agree.drifting import drift as drift
    from typecase.app.analyse.analysing import analyse as analyse
    from typecase.app.audit.auditing import audit_compare as audit_compare
    from typecase.app.audit.auditing import audit_corpus as audit_corpus
    from typecase.app.audit.auditing import audit_tokenizer as audit_tokenizer
    from typecase.app.audit.bigrams import audit_bigrams as audit_bigrams
    from typecase.app.audit.copies import audit_copies as audit_copies
    from typecase.app.audit.marginal import audit_marginal as audit_marginal
    from typecase.app.audit.pairs import ask_pairs as ask_pairs
    from typecase.app.audit.spectra import audit_spectra as audit_spectra
    from typecase.app.audit.verdict import audit_diff as audit_diff
    from typecase.app.audit.verdict import audit_gate as audit_gate
    from typecase.app.audit.verdict import audit_report as audit_report
    from typecase.app.audit.verdict import audit_text as audit_text
    from typecase.app.audit.weights import audit_weights as audit_weights
    from typecase.app.derive.deriving import Derivation as Derivation
    from typecase.app.derive.deriving import derive as derive
    from typecase.app.edit.editing import make_edits as make_edits
    from typecase.app.edit.editing import plan_edits as plan_edits
    from typecase.app.edit.planning import Aim as Aim
    from typecase.app.evaluate.evaluating import evaluate_compare as evaluate_compare
    from typecase.app.evaluate.evaluating import evaluate_harness as evaluate_harness
    from typecase.app.evaluate.evaluating import evaluate_perplexity as evaluate_perplexity
    from typecase.app.evaluate.evaluating import evaluate_tasks as evaluate_tasks
    from typecase.app.evaluate.evaluating import evaluate_winrate as evaluate_winrate
    from typecase.app.evaluate.evaluating import make_items as make_items
    from typecase.app.fit.fitting import rater_card as rater_card
    from typecase.app.fit.fitting import rater_fit as rater_fit
    from typecase.app.funnel.facts import funnel_of as funnel_of
    from typecase.app.funnel.page import write_funnel as write_funnel
    from typecase.app.health import doctor as doctor
    from typecase.app.health import merge as merge
    from typecase.app.health import repair as repair
    from typecase.app.plan.planning import make_plan as make_plan
    from typecase.app.search.searching import Search as Search
    from typecase.app.search.searching import open_search as open_search
    from typecase.app.spikes.doctor import diagnose as diagnose
    from typecase.app.spikes.losses import read_losses as read_losses
    from typecase.app.spikes.treatment import treat as treat
    from typecase.app.trace.tracing import order_check as order_check
    from typecase.app.trace.tracing import order_list as order_list
    from typecase.app.trace.tracing import order_write as order_write
    from typecase.app.trace.tracing import sample as sample
    from typecase.app.trace.tracing import trace_at as trace_at
    from typecase.app.trace.tracing import trace_compare as trace_compare
    from typecase.app.trace.tracing import trace_plan as trace_plan
    from typecase.app.trace.tracing import trace_when as trace_when
    from typecase.app.verbs import export as export
    from typecase.app.verbs import fate as fate
    from typecase.app.verbs import info as info
    from typecase.app.verbs import open as open
    from typecase.app.verbs import run as run
    from typecase.app.verbs import show as show
    from typecase.app.verbs import why as why
    from typecase.core.balance import Balance as Balance
    from typecase.core.document import Document as Document
    from typecase.core.document import Place as Place
    from typecase.core.document import Span as Span
    from typecase.core.program.language import Program as Program
    from typecase.core.program.language import Refusal as Refusal
    from typecase.core.rating import Rubric as Rubric
    from typecase.core.scaling import Machines as Machines
    from typecase.core.selection.quadmix import QuadMix as QuadMix
    from typecase.core.selection.selection import Budget as Budget
    from typecase.core.selection.selection import Policy as Policy
    from typecase.engine.local import Local as Local
    from typecase.engine.protocol import Engine as Engine
    from typecase.engine.ray import Ray as Ray
    from typecase.engine.slurm import Slurm as Slurm
    from typecase.errors import AlreadyExists as AlreadyExists
    from typecase.errors import BadProgram as BadProgram
    from typecase.errors import BadQuery as BadQuery
    from typecase.errors import BadRecipe as BadRecipe
    from typecase.errors import Conflict as Conflict
    from typecase.errors import CorruptStore as CorruptStore
    from typecase.errors import Damaged as Damaged
    from typecase.errors import FingerprintMismatch as FingerprintMismatch
    from typecase.errors import FixInput as FixInput
    from typecase.errors import ModelUnavailable as ModelUnavailable
    from typecase.errors import NeedsExtra as NeedsExtra
    from typecase.errors import NotFound as NotFound
    from typecase.errors import SchemaMismatch as SchemaMismatch
    from typecase.errors import StaleEdit as StaleEdit
    from typecase.errors import TryAgain as TryAgain
    from typecase.errors import TypecaseError as TypecaseError
    from typecase.errors import WorkerLost as WorkerLost
    from typecase.lm.cache import CachedLM as CachedLM
    from typecase.lm.fake import FakeLM as FakeLM
    from typecase.lm.local import LocalLM as LocalLM
    from typecase.lm.models import open_lm as open_lm
    from typecase.lm.protocol import LM as LM
    from typecase.lm.rate.raters import open_rater as open_rater
    from typecase.lm.rate.rubric import load_rubric as load_rubric
    from typecase.lm.refine.refiner import Refiner as Refiner
    from typecase.lm.refine.refiners import open_refiner as open_refiner
    from typecase.lm.remote import RemoteLM as RemoteLM
    from typecase.lm.tagger.tagger import load_tagger as load_tagger
    from typecase.recipe.build import Build as Build
    from typecase.recipe.copies import copies_of as copies_of
    from typecase.recipe.count import Count as Count
    from typecase.recipe.decontaminate import Decontaminate as Decontaminate
    from typecase.recipe.dedup import Dedup as Dedup
    from typecase.recipe.dedup_spans import DedupSpans as DedupSpans
    from typecase.recipe.importance import Importance as Importance
    from typecase.recipe.index import Index as Index
    from typecase.recipe.ingest import Ingest as Ingest
    from typecase.recipe.mark import Mark as Mark
    from typecase.recipe.perplexity import Perplexity as Perplexity
    from typecase.recipe.rate import Rate as Rate
    from typecase.recipe.recipe import Recipe as Recipe
    from typecase.recipe.recipe import load_recipe as load_recipe
    from typecase.recipe.refine import Refine as Refine
    from typecase.recipe.run import Artifact as Artifact
    from typecase.recipe.run import run_stage as run_stage
    from typecase.recipe.select import Select as Select
    from typecase.recipe.stage import Stage as Stage
    from typecase.store.documents import DocumentStore as DocumentStore
    from typecase.store.journal.journal import Journal as Journal
    from typecase.store.journal.opening import open_edited as open_edited
    from typecase.store.journal.opening import open_journal as open_journal
    from typecase.store.manifest import Manifest as Manifest
    from typecase.store.timeline.samples import Sample as Sample
    from typecase.store.timeline.timeline import Timeline as Timeline
    from typecase.store.timeline.timeline import open_timeline as open_timeline
    from typecase.store.tokenizer.tokenizer import Tokenizer as Tokenizer
    from typecase.store.tokenizer.tokenizer import open_tokenizer as open_tokenizer
    from typecase.store.tokens.store import TokenStore as TokenStore
    from typecase.train.config import ModelShape as ModelShape
    from typecase.train.config import TrainPlan as TrainPlan
    from typecase.train.config import preset as preset
    from typecase.train.exporting import export_hf as export_hf
    from typecase.train.importing import import_hf as import_hf
    from typecase.train.rater_recipe import RaterRecipe as RaterRecipe

_HOMES = {
    "Aim": "app.edit.planning",
    "AlreadyExists": "errors",
    "Artifact": "recipe.run",
    "BadProgram": "errors",
    "BadQuery": "errors",
    "BadRecipe": "errors",
    "Balance": "core.balance",
    "Budget": "core.selection.selection",
    "Build": "recipe.build",
    "CachedLM": "lm.cache",
    "Conflict": "errors",
    "CorruptStore": "errors",
    "Count": "recipe.count",
    "Damaged": "errors",
    "Decontaminate": "recipe.decontaminate",
    "Dedup": "recipe.dedup",
    "DedupSpans": "recipe.dedup_spans",
    "Derivation": "app.derive.deriving",
    "Document": "core.document",
    "DocumentStore": "store.documents",
    "Engine": "engine.protocol",
    "FakeLM": "lm.fake",
    "FingerprintMismatch": "errors",
    "FixInput": "errors",
    "Importance": "recipe.importance",
    "Index": "recipe.index",
    "Ingest": "recipe.ingest",
    "Journal": "store.journal.journal",
    "LM": "lm.protocol",
    "Local": "engine.local",
    "LocalLM": "lm.local",
    "Machines": "core.scaling",
    "Manifest": "store.manifest",
    "Mark": "recipe.mark",
    "ModelShape": "train.config",
    "ModelUnavailable": "errors",
    "NeedsExtra": "errors",
    "NotFound": "errors",
    "Perplexity": "recipe.perplexity",
    "Place": "core.document",
    "Policy": "core.selection.selection",
    "Program": "core.program.language",
    "QuadMix": "core.selection.quadmix",
    "Rate": "recipe.rate",
    "RaterRecipe": "train.rater_recipe",
    "Ray": "engine.ray",
    "Recipe": "recipe.recipe",
    "Refine": "recipe.refine",
    "Refiner": "lm.refine.refiner",
    "Refusal": "core.program.language",
    "RemoteLM": "lm.remote",
    "Rubric": "core.rating",
    "Sample": "store.timeline.samples",
    "SchemaMismatch": "errors",
    "Search": "app.search.searching",
    "Select": "recipe.select",
    "Slurm": "engine.slurm",
    "Span": "core.document",
    "Stage": "recipe.stage",
    "StaleEdit": "errors",
    "Timeline": "store.timeline.timeline",
    "TokenStore": "store.tokens.store",
    "Tokenizer": "store.tokenizer.tokenizer",
    "TrainPlan": "train.config",
    "TryAgain": "errors",
    "TypecaseError": "errors",
    "WorkerLost": "errors",
    "ablate": "app.ablate.ablating",
    "agree": "app.agree.agreeing",
    "analyse": "app.analyse.analysing",
    "ask_pairs": "app.audit.pairs",
    "audit_bigrams": "app.audit.bigrams",
    "audit_compare": "app.audit.auditing",
    "audit_copies": "app.audit.copies",
    "audit_corpus": "app.audit.auditing",
    "audit_diff": "app.audit.verdict",
    "audit_gate": "app.audit.verdict",
    "audit_marginal": "app.audit.marginal",
    "audit_report": "app.audit.verdict",
    "audit_spectra": "app.audit.spectra",
    "audit_text": "app.audit.verdict",
    "audit_tokenizer": "app.audit.auditing",
    "audit_weights": "app.audit.weights",
    "compare": "app.agree.comparing",
    "copies_of": "recipe.copies",
    "derive": "app.derive.deriving",
    "diagnose": "app.spikes.doctor",
    "doctor": "app.health",
    "drift": "app.agree.drifting",
    "evaluate_compare": "app.evaluate.evaluating",
    "evaluate_harness": "app.evaluate.evaluating",
    "evaluate_perplexity": "app.evaluate.evaluating",
    "evaluate_tasks": "app.evaluate.evaluating",
    "evaluate_winrate": "app.evaluate.evaluating",
    "export": "app.verbs",
    "export_hf": "train.exporting",
    "fate": "app.verbs",
    "funnel_of": "app.funnel.facts",
    "import_hf": "train.importing",
    "info": "app.verbs",
    "load_recipe": "recipe.recipe",
    "load_rubric": "lm.rate.rubric",
    "load_tagger": "lm.tagger.tagger",
    "make_edits": "app.edit.editing",
    "make_items": "app.evaluate.evaluating",
    "make_plan": "app.plan.planning",
    "merge": "app.health",
    "open": "app.verbs",
    "open_edited": "store.journal.opening",
    "open_journal": "store.journal.opening",
    "open_lm": "lm.models",
    "open_rater": "lm.rate.raters",
    "open_refiner": "lm.refine.refiners",
    "open_search": "app.search.searching",
    "open_timeline": "store.timeline.timeline",
    "open_tokenizer": "store.tokenizer.tokenizer",
    "order_check": "app.trace.tracing",
    "order_list": "app.trace.tracing",
    "order_write": "app.trace.tracing",
    "plan_edits": "app.edit.editing",
    "preset": "train.config",
    "rater_card": "app.fit.fitting",
    "rater_fit": "app.fit.fitting",
    "read_losses": "app.spikes.losses",
    "repair": "app.health",
    "run": "app.verbs",
    "run_stage": "recipe.run",
    "sample": "app.trace.tracing",
    "show": "app.verbs",
    "trace_at": "app.trace.tracing",
    "trace_compare": "app.trace.tracing",
    "trace_plan": "app.trace.tracing",
    "trace_when": "app.trace.tracing",
    "treat": "app.spikes.treatment",
    "why": "app.verbs",
    "write_funnel": "app.funnel.page",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'typecase' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"typecase.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
