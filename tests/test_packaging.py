"""The wheel holds the package, all of it, and works without the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import lowtide

ROOT = Path(__file__).resolve().parents[1]
AROUND = {"tests", "build", "dist", "demo", "experiments"}
RECORDS = {"__pycache__", "experiments"}  # committed results, which the program does not read


def packages() -> set[str]:
    """Return the folders of the checkout that are packages."""
    found = set()
    for init in ROOT.rglob("__init__.py"):
        parts = init.relative_to(ROOT).parts[:-1]
        if not any(part.startswith(".") or part in AROUND for part in parts):
            found.add(".".join(("lowtide", *parts)))
    return found


def data_files(folder: Path) -> Iterator[Path]:
    """Yield the files of a package, and of folders in it that are none, which the program reads."""
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix not in (".py", ".md"):
            yield path
        elif path.is_dir() and path.name not in RECORDS and not (path / "__init__.py").exists():
            yield from data_files(path)


def test_every_package_is_listed() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        listed = tomllib.load(file)["tool"]["setuptools"]["packages"]
    assert sorted(listed) == sorted(packages())


def test_the_citation_is_of_this_release() -> None:
    lines = (ROOT / "CITATION.cff").read_text().splitlines()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    said = dict(line.split(": ", 1) for line in lines if ": " in line and not line.startswith(" "))
    assert said["version"] == lowtide.__version__
    assert said["license"] == project["license"]
    assert (
        said["title"].strip('"')
        == f"lowtide: {project['description'][0].lower()}{project['description'][1:]}"
    )
    words = {line.removeprefix("  - ") for line in lines if line.startswith("  - ")}
    assert {"scheduling", "memory", "computation graph"} <= words & {*project["keywords"]}


def test_addresses_of_the_project_stand_in_one_place() -> None:
    """The owner fills in where the project lives: in ``pyproject.toml`` alone."""
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert {"Homepage", "Documentation", "Source", "Issues"} <= urls.keys()
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "CITATION.cff",
        "docs/index.md",
        "docs/conf.py",
    ):
        text = (ROOT / name).read_text()
        assert not any(url in text for url in urls.values()), name


def test_every_data_file_of_the_package_is_listed() -> None:
    with open(ROOT / "pyproject.toml", "rb") as file:
        listed = tomllib.load(file)["tool"]["setuptools"]["package-data"]
    for name in packages() - {"lowtide"}:
        folder = ROOT.joinpath(*name.split(".")[1:])
        data = {p.relative_to(folder).as_posix() for p in data_files(folder)}
        matched = {
            p.relative_to(folder).as_posix() for pattern in listed.get(name, []) for p in folder.glob(pattern)
        }
        assert data == matched, f"package-data of {name}"


@pytest.mark.slow
def test_wheel_runs_outside_the_checkout(tmp_path: Path) -> None:
    """Built from a copy, unpacked into an empty folder, run from another one: about a minute."""
    source, site, elsewhere = (tmp_path / name for name in ("source", "site", "elsewhere"))
    hidden = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info", *AROUND)
    shutil.copytree(ROOT, source, ignore=hidden)
    elsewhere.mkdir()
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", tmp_path, source], check=True)
    (wheel,) = tmp_path.glob("lowtide-*.whl")
    subprocess.run([*pip, "install", "--no-deps", "--target", site, wheel], check=True)
    env = {**os.environ, "PYTHONPATH": str(site)}

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=elsewhere, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert run("-c", "import lowtide; print(lowtide.__file__)").strip() == str(site / "lowtide/__init__.py")
    assert (site / "lowtide" / "py.typed").exists()
    assert not (site / "lowtide" / "setup.py").exists()
    assert not (source / "build").exists()  # tools would read it as the package
    assert "usage: lowtide" in run("-m", "lowtide", "--help")
    spec = "catalogue:two-branches"
    solved = run("-m", "lowtide", "solve", "peak", spec, "--method", "greedy", "--plan", "p.json")
    assert "feasible" in solved
    assert "valid" in run("-m", "lowtide", "verify", "p.json")
    assert "1 MiB" in run("-m", "lowtide", "solve", "offsets", "catalogue:minimalloc/A", "--method", "greedy")
    assert "1489" in run("-m", "lowtide", "show", "catalogue:g10/vit-1280").replace(",", "")
    assert list(site.glob("lowtide-*.dist-info/**/NOTICE"))
    assert (site / "bin" / "lowtide").exists()
