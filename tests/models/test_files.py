"""Output files are written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lowtide.models.errors import UsageError
from lowtide.models.files import check_writable, compress, write_whole


def test_new_and_replaced_files_hold_all_of_the_content(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    for content in (b"one", b"", b"x" * 100_000):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert os.listdir(tmp_path) == ["out.json"]


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        write_whole(tmp_path / "out", b"x")
    finally:
        os.umask(old)
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o640


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_whole(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_bytes() == b"new"


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("", "found a folder"),
        ("folder", "found a folder"),
        ("folder/", "found a folder"),
        ("missing/out", "found no folder"),
        ("file/out", "found no folder"),
        ("/dev/null", "found a device or pipe"),
        ("n" * 300, "File name too long"),
        ("a\0b", "null"),
    ],
)
def test_paths_that_cannot_be_written(
    path: str, found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("file").write_bytes(b"old")
    with pytest.raises(UsageError, match=found) as error:
        write_whole(path, b"new")
    assert "\n" not in str(error.value)
    assert sorted(os.listdir(".")) == ["file", "folder"]
    assert not os.listdir("folder")
    assert Path("file").read_bytes() == b"old"


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may write everywhere")
def test_read_only_file_and_folder(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")
    path.chmod(0o400)
    with pytest.raises(UsageError, match="read-only file"):
        write_whole(path, b"new")
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="without write permission"):
        write_whole(tmp_path / "other", b"new")
    tmp_path.chmod(0o700)
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_half_way_keeps_the_old_content(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    path.write_bytes(b"old")

    def fail(_: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    expected = UsageError if isinstance(error, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        write_whole(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out"]


def test_check_writable_writes_nothing(tmp_path: Path) -> None:
    check_writable(tmp_path / "out")
    assert not os.listdir(tmp_path)


def test_compression_is_deterministic_and_nameless() -> None:
    assert compress(b"abc") == compress(b"abc")
    assert compress(b"abc")[4:8] == b"\0\0\0\0"
