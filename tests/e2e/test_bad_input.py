"""Bad input: the exit status, the kind, and words that help; stdout stays clean; never a signal."""
import json
import os
import shutil
import struct
import subprocess
import time

import pytest

from conftest import PAGODA, models_folder, pagoda


def refused(result, status, kind):
    assert result.status == status, (result.status, result.err)
    assert f"error[{kind}".encode() in result.err, result.err
    assert result.out == b""


def test_a_missing_model():
    refused(pagoda("run", "/no/such/file.gguf", "x"), 3, "model.not_found")
    refused(pagoda("run", "no-such-name", "x"), 3, "model.not_found")


def test_files_that_are_no_models(tmp_path, smollm2):
    def file(name: str, content: bytes):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    refused(pagoda("run", file("empty.gguf", b""), "x"), 3, "model.empty")
    refused(pagoda("run", file("magic.gguf", b"GGUF"), "x"), 3, "gguf.truncated")
    refused(pagoda("run", file("foreign.gguf", b"\x89PNG" * 64), "x"), 3, "gguf.bad_magic")
    huge = b"GGUF" + struct.pack("<IQQ", 3, 2**64 - 1, 2**64 - 1)
    refused(pagoda("run", file("huge.gguf", huge), "x"), 3, "gguf.count_too_large")
    with open(smollm2, "rb") as whole:
        refused(pagoda("run", file("cut.gguf", whole.read(40_000_000)), "x"), 3, "gguf.")
    folder = tmp_path / "folder.gguf"
    folder.mkdir()
    refused(pagoda("run", folder, "x"), 3, "model.")


def test_a_file_that_is_cut_short_while_it_is_loaded(tmp_path):
    path = shutil.copy(models_folder() / "gemma-3-270m.gguf", tmp_path / "m.gguf")
    process = subprocess.Popen([PAGODA, "run", path, "--raw", "--json", "-n", "2", "hi"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    time.sleep(0.05)
    os.truncate(path, 9_000_000)
    out, err = process.communicate(timeout=60)
    if process.returncode != 0:  # it was still read
        assert process.returncode == 3, err
        kind = json.loads(out)["error"]["kind"]
        assert kind in ("model.changed", "gguf.truncated"), kind


def test_json_errors_are_json(tmp_path):
    result = pagoda("run", tmp_path / "none.gguf", "--json", "x")
    assert result.status == 3
    assert json.loads(result.out)["error"]["kind"] == "model.not_found"


@pytest.mark.parametrize("arguments, flag", [
    (("run", "m", "--no-such-flag"), "--no-such-flag"),
    (("run", "m", "x", "--temperature", "hot"), "--temperature"),
    (("run", "m", "x", "--temperature", "-1"), "--temperature"),
    (("run", "m", "x", "--top-p", "1.1"), "--top-p"),
    (("run", "m", "x", "--ctx-size", "abc"), "--max-model-len"),
    (("run", "m", "x", "--kv-cache-dtype", "int3"), "--kv-cache-dtype"),
    (("run", "m", "x", "--kv-cache-memory-bytes", "4 potatoes"), "--kv-cache-memory-bytes"),
    (("run", "m", "x", "-n", "0"), "max-tokens"),
    (("run", "m", "x", "--block-size", "17"), "--block-size"),
    (("run", "m", "x", "--block-size", "1040"), "--block-size"),
    (("run", "m", "x", "--block-size", "many"), "--block-size"),
    (("run", "m", "x", "--kv-cache-memory-bytes", "0"), "--kv-cache-memory-bytes"),
    (("run", "m", "x", "--seed", "-1"), "--seed"),
    (("run", "m", "x", "--seed", "99999999999999999999"), "--seed"),
    (("--no-such-flag",), "--no-such-flag"),
    (("run",), "MODEL"),
    (("fly",), "fly"),
])
def test_bad_flags_are_named(arguments, flag):
    result = pagoda(*arguments)
    refused(result, 2, "usage.")
    assert flag.encode() in result.err


def test_fp8_on_a_cpu_is_refused_by_name(model):
    result = pagoda("run", model, "--kv-cache-dtype", "fp8", "x")
    refused(result, 2, "usage.")
    assert b"fp8" in result.err


def test_a_context_beyond_the_model(model):
    refused(pagoda("run", model, "--max-model-len", 10_000_000, "x"), 2, "usage.max_model_len")


def test_a_prompt_longer_than_the_context(model):
    result = pagoda("run", model, "--max-model-len", 64, "word " * 200)
    refused(result, 2, "request.context_length_exceeded")
    assert b"64" in result.err


def test_an_empty_raw_prompt(model):
    result = pagoda("run", model, "--raw", "--temperature", 0, "-n", 2, "")
    if model == "gemma-3-270m":  # BOS alone is a prompt
        assert result.status == 0, result.err
    else:
        refused(result, 2, "request.bad_prompt")


def test_bytes_that_are_no_utf8(model):
    text = b"caf\xe9 \xff\xfe\x00 end"
    result = pagoda("run", model, "--json", "--raw", "--temperature", 0, "-n", 4, stdin=text)
    assert result.status == 0, result.err
    result.json
    if model == "smollm2-135m":  # a chat message is JSON text, and says so
        refused(pagoda("run", model, stdin=text), 2, "template.input")


def test_kv_memory_that_cannot_be_had(model):
    result = pagoda("run", model, "--max-num-seqs", 65536, "--max-num-batched-tokens", 65536, "--max-model-len", 8192, "x")
    refused(result, 4, "kv.alloc_failed")


def test_kv_memory_too_small_for_a_sequence(model):
    result = pagoda("run", model, "--kv-cache-memory-bytes", "1MiB", "x")
    refused(result, 4, "kv.alloc_failed")
    assert b"--max-model-len" in result.err


def test_a_context_of_one_token(smollm2):
    result = pagoda("run", smollm2, "--max-model-len", 1, "x")
    assert result.status == 2 and b"--max-model-len" in result.err, result.err


def test_kv_memory_that_holds_no_block_names_no_length(smollm2):
    result = pagoda("plan", smollm2, "--kv-cache-memory-bytes", "1KiB")
    refused(result, 4, "kv.alloc_failed")
    assert b"--max-model-len" not in result.err


def test_a_bench_of_nothing():
    result = pagoda("bench", "smollm2-135m", "-p", 0, "-n", 0)
    refused(result, 2, "usage.bench")
    assert b"-p 0" in result.err


def test_an_instruction_set_that_is_unknown(model):
    refused(pagoda("run", model, "x", env={"PAGODA_CPU_ISA": "v9"}), 4, "cpu.bad_isa")


def test_ids_outside_the_vocabulary(model):
    refused(pagoda("detokenize", model, 99999999), 2, "usage.token_id")


def test_a_file_that_cannot_be_read(model):
    refused(pagoda("perplexity", model, "/no/such/text"), 2, "usage.file")
    if model == "smollm2-135m":
        refused(pagoda("template", model, "--messages", "/no/such/json"), 2, "usage.file")


def test_messages_that_are_hostile_json(tmp_path):
    file = tmp_path / "messages.json"
    for text in ("[" * 100_000 + "]" * 100_000, "{}", '{"messages": 5}', "[", ""):
        file.write_text(text)
        result = pagoda("template", "smollm2-135m", "--messages", file)
        assert result.status == 2 and result.out == b"", (text[:20], result.err)


def test_a_model_without_a_template_does_not_chat():
    refused(pagoda("chat", "gemma-3-270m", stdin=b"Hello\n"), 3, "template.missing")
    refused(pagoda("run", "gemma-3-270m", "--system", "Be brief.", "x"), 3, "template.missing")
