#!/usr/bin/env python3
"""Makes tests/golden/perplexity.json: llama-perplexity's figures for tests/golden/text.txt.

  python3 tools/make_golden_perplexity.py LLAMA_PERPLEXITY NAME=MODEL.gguf...   # keeps the other entries

The convention is that tool's: consecutive windows of 512 tokens (what is left over at the end is not scored),
BOS in the place of a window's first token where the model asks for one, tokens 257 to 512 of each window scored
by the 256 to 511 before them: 255 a window. `running` is the perplexity after each window.
"""
import hashlib
import json
import pathlib
import re
import subprocess
import sys

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
TEXT, OUT, CONTEXT = GOLDEN / "text.txt", GOLDEN / "perplexity.json", 512


def measure(program, model):
    command = [program, "-m", model, "-f", TEXT, "-c", str(CONTEXT), "-t", "1"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=True)
    output = done.stdout + done.stderr
    final, error = re.search(r"Final estimate: PPL = ([\d.]+) \+/- ([\d.]+)", output).groups()
    running = [float(value) for _, value in re.findall(r"\[(\d+)\]([\d.]+),", output)]
    return {"model": pathlib.Path(model).name, "perplexity": float(final), "standard_error": float(error),
            "windows": len(running), "tokens": len(running) * (CONTEXT - CONTEXT // 2 - 1), "running": running}


def main():
    program, *models = sys.argv[1:]
    known = json.loads(OUT.read_text())["models"] if OUT.exists() else {}
    for entry in models:
        name, path = entry.split("=", 1)
        known[name] = measure(program, path)
        print(name, known[name]["perplexity"], known[name]["windows"])
    head = {"text": TEXT.name, "sha256": hashlib.sha256(TEXT.read_bytes()).hexdigest(), "context": CONTEXT,
            "reference": "llama.cpp, CPU, f16 KV cache", "models": known}
    OUT.write_text(json.dumps(head, indent=1) + "\n")


if __name__ == "__main__":
    main()
