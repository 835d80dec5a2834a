"""src/LAYERS is the one table of layers: a file includes only from a lower layer, or from its own folder."""
import re
from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
# "src/cli" may stand on the backend's factories; a factory header is named here when a higher layer picks a device.


def layers() -> dict[str, int]:
    table = {}
    for line in (SRC / "LAYERS").read_text().splitlines():
        if line and not line.startswith("#"):
            layer, folder = line.split()
            table[folder] = int(layer)
    return table


def sources() -> list[Path]:
    return sorted(p for p in SRC.rglob("*") if p.suffix in {".h", ".cpp", ".cu", ".cuh"})


def bad_edges(table: dict[str, int], files: list[tuple[str, str]]) -> list[str]:
    bad = []
    for path, text in files:
        own = path.split("/")[0]
        for target in INCLUDE.findall(text):
            folder = target.split("/")[0]
            if folder not in table:
                bad.append(f"{path}: {target}: no such folder in LAYERS")
            elif folder != own and table[folder] >= table[own]:
                bad.append(f"{path}: {target}: layer {table[folder]} from layer {table[own]}")
    return bad


def test_every_include_points_down():
    files = [(str(p.relative_to(SRC)), p.read_text()) for p in sources() if not p.name.endswith("_test.cpp")]
    public = [(path, re.sub(r'#include "pagoda.h"', "", text)) for path, text in files]
    assert len(files) > 20
    assert bad_edges(layers(), public) == []


def test_tests_include_downwards_too():
    files = [(str(p.relative_to(SRC)), p.read_text()) for p in sources() if p.name.endswith("_test.cpp")]
    assert bad_edges(layers(), files) == []


def test_an_upward_and_a_sideways_edge_are_found():
    table = {"base": 0, "kv": 2, "model": 2}
    assert bad_edges(table, [("base/a.h", '#include "kv/b.h"')]) != []
    assert bad_edges(table, [("kv/a.h", '#include "model/b.h"')]) != []
    assert bad_edges(table, [("kv/a.h", '#include "base/b.h"\n#include "kv/c.h"')]) == []


def test_every_folder_of_src_has_a_layer():
    folders = {p.name for p in SRC.iterdir() if p.is_dir()}
    assert folders <= set(layers())
