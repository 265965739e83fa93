"""Every `bash` and `python` block of README and docs runs, page by page, in a folder that holds `corpus/`."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")


def script_of(page: Path) -> str:
    """The page's blocks as one shell script; a Python block becomes a here-document."""
    lines = ["set -euo pipefail"]
    for language, code in BLOCK.findall(page.read_text()):
        if language == "bash":
            lines.append(code)
        elif language == "python":
            lines.append(f"python - <<'PYTHON'\n{code}PYTHON")
    return "\n".join(lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_block_runs(page: Path, tmp_path: Path) -> None:
    script = script_of(page)
    if script.count("\n") == 0:
        pytest.skip("a page without commands")
    shutil.copytree(ROOT / "examples" / "corpus", tmp_path / "corpus")
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, f"{page.name}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in LINK.findall(page.read_text()):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_command_has_a_page() -> None:
    from typecase.app.cli import COMMANDS

    text = "\n".join(page.read_text() for page in PAGES)
    for command in COMMANDS:
        assert f"typecase {command}" in text, f"no page shows `typecase {command}`"
