"""The front end's libraries are what versions.json says, and each of them has its licence with it."""

import hashlib
import json
from pathlib import Path

import pytest
from tools import vendor


def copy_of_vendor(folder: Path) -> Path:
    for path in vendor.VENDOR.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder


def test_what_is_vendored_is_what_was_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    assert vendor.main(["--check"]) == 0
    assert capsys.readouterr().out == "All vendored files are as recorded.\n"


def test_every_recorded_version_is_true_to_the_files() -> None:
    rows = json.loads((vendor.VENDOR / vendor.RECORD).read_text(encoding="utf-8"))["packages"]
    digests = {one["file"]: one["sha256"] for row in rows for one in row.get("files", [])}
    for name, digest in digests.items():
        assert hashlib.sha256((vendor.VENDOR / name).read_bytes()).hexdigest() == digest
    assert all(row["integrity"].startswith("sha512-") for row in rows)
    assert {row["name"] for row in rows if "files" in row} == {
        "preact", "@preact/signals", "@preact/signals-core", "htm", "force-graph", "uplot",
    }  # fmt: skip


@pytest.mark.parametrize(("file", "words"), [("force-graph.js", "1.52.0"), ("uplot.js", "1.6.32")])
def test_a_library_that_names_its_version_names_the_recorded_one(file: str, words: str) -> None:
    head = (vendor.VENDOR / file).read_text(encoding="utf-8")[:120]
    rows = json.loads((vendor.VENDOR / vendor.RECORD).read_text(encoding="utf-8"))["packages"]
    assert words in head
    assert words in [
        row["version"] for row in rows if any(one["file"] == file for one in row.get("files", []))
    ]


def test_each_package_has_its_licence_text() -> None:
    told = (vendor.VENDOR / vendor.LICENSES).read_text(encoding="utf-8")
    for package in vendor.PACKAGES:
        assert package.spec in told
    for words in (
        "Permission is hereby granted",
        "Apache License",
        "ISC",
        "Redistributions of source code",
    ):
        assert words in told


def test_a_changed_a_missing_and_a_foreign_file_are_told(tmp_path: Path) -> None:
    folder = copy_of_vendor(tmp_path)
    (folder / "htm.js").write_text("export default 1;\n", encoding="utf-8", newline="")
    (folder / "uplot.css").unlink()
    (folder / "other.js").write_text("", encoding="utf-8", newline="")
    assert list(vendor.problems(folder)) == [
        "other.js is there, and nobody knows where from.",
        "htm.js is not the file that was recorded.",
        "uplot.css is missing.",
    ]


def test_a_licence_that_is_gone_is_told(tmp_path: Path) -> None:
    folder = copy_of_vendor(tmp_path)
    path = folder / vendor.LICENSES
    text = path.read_text(encoding="utf-8").replace("htm@3.1.1", "")
    path.write_text(text, encoding="utf-8", newline="")
    assert list(vendor.problems(folder)) == ["htm@3.1.1 has no text in LICENSES.txt."]


def test_a_folder_without_a_record_says_what_to_run(tmp_path: Path) -> None:
    assert list(vendor.problems(tmp_path)) == [
        "versions.json is missing: run this script without --check."
    ]


def test_bare_imports_become_the_files_beside() -> None:
    assert vendor.relative_imports('import{h}from"preact";export*from "preact/hooks"') == (
        'import{h}from"./preact.js";export*from"./hooks.js"'
    )


def test_style_elements_are_cut_out_and_nothing_else() -> None:
    inject = (
        '!function(t,n){void 0===n&&(n={});var e=n.insertAt;if("undefined"!=typeof document){'
        'var r=document.head,i=document.createElement("style");r.appendChild(i)}}(".a {\\n  color: \\"red\\";\\n}");'
    )
    assert (
        vendor.no_style_element(f"var a=1;{inject}var b=2;{inject}var c=3;")
        == "var a=1;var b=2;var c=3;"
    )


def test_no_library_adds_a_style_element_or_points_outside_for_code() -> None:
    for path in vendor.VENDOR.glob("*.js"):
        text = path.read_text(encoding="utf-8")
        assert 'createElement("style")' not in text
        assert "sourceMappingURL" not in text
        assert 'from"http' not in text


def test_a_change_that_finds_nothing_is_refused() -> None:
    for change in (
        vendor.relative_imports,
        vendor.no_source_map,
        vendor.no_style_element,
        vendor.global_as_default("X"),
    ):
        with pytest.raises(vendor.Refused, match="look at the new version"):
            change("var a = 1;")
