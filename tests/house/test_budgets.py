"""The budgets of docs/architecture.md §6: lines of files and functions, headers, folder depth, compile time, kernels compiled
from one template."""
import os
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILE_LINES, KERNEL_FILE_LINES, HEADER_LINES = 400, 600, 150
FUNCTION_LINES, KERNEL_FUNCTION_LINES = 60, 150
DECODE_INSTANCES, ATTENTION_INSTANCES = 16, 31
COMPILE_SECONDS = 20.0


def files(*suffixes: str) -> list[Path]:
    folders = [ROOT / name for name in ("src", "include", "bench", "fuzz", "tests", "tools")]
    found = sorted(p for folder in folders for p in folder.rglob("*") if p.suffix in suffixes)
    assert found
    return found


def is_kernel(path: Path) -> bool:
    """Device code, code that is compiled for each instruction set, and the forward pass."""
    if path.suffix in {".cu", ".cuh"} or path.name == "model.cpp":
        return True
    return "namespace pagoda::cpu::PAGODA_ISA" in path.read_text()


def test_files_are_short():
    long = []
    for path in files(".h", ".cpp", ".cu", ".cuh", ".py"):
        lines = len(path.read_text().splitlines())
        limit = KERNEL_FILE_LINES if is_kernel(path) else HEADER_LINES if path.suffix == ".h" else FILE_LINES
        if lines > limit:
            long.append(f"{path.relative_to(ROOT)}: {lines} lines of {limit}")
    assert long == []


def function_lengths(text: str) -> list[tuple[int, int]]:
    """(first line, length) of each function of formatted code: its closing brace stands under its first column."""
    lengths, open_at = [], {}
    for number, line in enumerate(text.splitlines(), 1):
        indent = len(line) - len(line.lstrip())
        body = line.strip()
        if body.endswith("{") and re.search(r"[)\w] (const |noexcept |override |final )*\{$|\) \{$", body):
            if not re.match(r"(namespace|struct|class|enum|union|extern|if|for|while|switch|else|do|try|case|\})\b", body):
                open_at[indent] = number
        elif body.startswith("}"):
            if indent in open_at:
                start = open_at.pop(indent)
                lengths.append((start, number - start + 1))
            # What began further in has ended: a constructor's body begins behind its initialisers.
            open_at = {column: start for column, start in open_at.items() if column < indent}
    return lengths


def test_functions_are_short():
    long = []
    for path in files(".h", ".cpp", ".cu", ".cuh"):
        limit = KERNEL_FUNCTION_LINES if is_kernel(path) else FUNCTION_LINES
        for start, length in function_lengths(path.read_text()):
            if length > limit:
                long.append(f"{path.relative_to(ROOT)}:{start}: a function of {length} lines of {limit}")
    assert long == []


def test_a_long_function_is_found():
    text = "int f(int a) {\n" + "  a++;\n" * 70 + "}\n"
    assert function_lengths(text) == [(1, 72)]


def test_folders_are_shallow():
    deep = [p for p in files(".h", ".cpp", ".cu", ".cuh") if len(p.relative_to(ROOT / p.relative_to(ROOT).parts[0]).parts) > 4]
    assert deep == []


def test_attention_kernels_are_few():
    """Rows of the tables of instances: what a launch can decide at run time is no instance."""
    counts = {p.name: len(re.findall(r"^ +\w*instance<.+>\(", p.read_text(), re.MULTILINE))
              for p in sorted((ROOT / "src/backend/cuda").glob("*.cu"))}
    decode = sum(n for name, n in counts.items() if name.startswith("decode"))
    assert 0 < decode <= DECODE_INSTANCES and sum(counts.values()) <= ATTENTION_INSTANCES, counts


def test_no_translation_unit_compiles_long():
    """CPU seconds that the build recorded (cmake/measure-compile); a unit that came from a compiler cache says nothing."""
    record = Path(os.environ.get("PAGODA_COMPILE_TIMES", "compile_times.txt"))
    slow = []
    for line in record.read_text().splitlines() if record.exists() else []:
        seconds, unit = line.split(maxsplit=1)
        if float(seconds) > COMPILE_SECONDS:
            slow.append(f"{unit}: {seconds} s of {COMPILE_SECONDS}")
    assert slow == []


def test_the_project_speaks_of_itself_alone():
    """No path of a machine, no unfinished corner by its own words."""
    words = re.compile(r"(?<![\w.])/(root|home)/|\b(TODO|FIXME|XXX)\b")
    found = []
    for path in files(".h", ".cpp", ".cu", ".cuh", ".py", ".md", ".txt") + sorted(ROOT.glob("docs/*.md")):
        if path.name == "test_budgets.py":
            continue
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if words.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:80]}")
    assert found == []
