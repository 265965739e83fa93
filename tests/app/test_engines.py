"""The option --engine: each form names its engine; what cannot be meant is refused in words."""

from __future__ import annotations

import subprocess
import sys

import pytest

from typecase.app.engines import engine_named
from typecase.engine.local import Local
from typecase.engine.protocol import Engine
from typecase.engine.ray import Ray
from typecase.engine.slurm import Slurm
from typecase.errors import FixInput


@pytest.mark.parametrize(
    "spec, workers, engine",
    [
        ("local", 0, Local(0)),
        ("local", 3, Local(3)),
        ("local:4", 3, Local(4)),
        ("local:0", 3, Local(0)),
        ("ray", 0, Ray()),
        ("ray", 3, Ray(workers=3)),
        ("ray?gpus=0.5", 0, Ray(gpus=0.5)),
        ("ray://auto", 0, Ray("auto")),
        ("ray://head:6379?cpus=2&gpus=0.25&workers=16", 3, Ray("head:6379", 16, 2.0, 0.25)),
        ("slurm", 0, Slurm(1)),
        ("slurm", 8, Slurm(8)),
        (
            "slurm?workers=16&folder=/shared/x&partition=long&requeue=&models.gres=gpu:1",
            0,
            Slurm(16, "/shared/x", ("--partition=long", "--requeue"), ("--gres=gpu:1",)),
        ),
    ],
)
def test_a_form_names_its_engine(spec: str, workers: int, engine: Engine) -> None:
    assert engine_named(spec, workers=workers) == engine


@pytest.mark.parametrize(
    "spec, says",
    [
        ("spark", "'spark' names no engine: it is local, local:N, ray"),
        ("ray:auto", "names no engine"),
        ("ray://", "names no engine"),
        ("slurm:x", "names no engine"),
        ("", "names no engine"),
        ("local:", "whole number"),
        ("local:-2", "whole number, got '-2'"),
        ("local:2?cpus=3", "no parameter 'cpus'; it has none"),
        ("ray?gpu=1", "no parameter 'gpu'; it has workers, cpus, gpus"),
        ("ray?cpus=many", "cpus is a number, got 'many'"),
        ("ray?cpus=0", "more than 0 cores"),
        ("ray?cpus=1&cpus=2", "named twice"),
        ("slurm?workers=none", "whole number"),
        ("ray?cpus", "cannot be read"),
    ],
)
def test_what_cannot_be_meant_is_refused(spec: str, says: str) -> None:
    with pytest.raises(FixInput) as caught:
        engine_named(spec)
    assert says in str(caught.value)


def test_ray_is_not_imported_before_it_works() -> None:
    code = "import sys; from typecase.app.engines import engine_named; engine_named('ray'); print('ray' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
