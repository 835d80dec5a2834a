"""Each command does what docs/cli.md says, on both models."""
import json
import signal
import subprocess
import time

from conftest import PAGODA, ROOT, pagoda


def test_run_streams_an_answer(model):
    result = pagoda("run", model, "--raw", "--temperature", 0, "-n", 24, "The capital of France is")
    assert result.status == 0, result.err
    assert {"smollm2-135m": b"Paris", "gemma-3-270m": b"France"}[model] in result.out


def test_run_json_has_all_fields(model):
    result = pagoda("run", model, "--json", "--temperature", 0, "-n", 8, "Say hello.")
    assert result.status == 0, result.err
    answer = result.json
    assert len(answer["token_ids"]) == answer["usage"]["completion_tokens"] <= 8
    assert answer["usage"]["prompt_tokens"] == len(answer["prompt_token_ids"])
    assert answer["finish_reason"] in ("length", "stop")
    assert set(answer["timings"]) >= {"load_s", "ttft_s", "prefill_tokens_per_s", "decode_tokens_per_s", "peak_rss_bytes"}
    assert answer["timings"]["ttft_s"] > 0


def test_a_seed_repeats_an_answer_and_is_reported(model):
    ask = ("run", model, "--json", "--temperature", 1, "-n", 12, "Tell me a story.")
    first = pagoda(*ask).json
    again = pagoda(*ask, "--seed", first["seed"]).json
    assert again["token_ids"] == first["token_ids"]
    other = pagoda(*ask, "--seed", first["seed"] + 1).json
    assert other["token_ids"] != first["token_ids"]


def test_the_prompt_may_come_from_stdin(model):
    ask = ("run", model, "--json", "--raw", "--temperature", 0, "-n", 4)
    assert pagoda(*ask, stdin=b"The sun is").json["token_ids"] == pagoda(*ask, "The sun is").json["token_ids"]


def test_without_the_kv_cache_the_tokens_are_the_same(model):
    ask = ("run", model, "--json", "--temperature", 0, "-n", 12, "Name a colour.")
    assert pagoda(*ask, "--no-kv-cache").json["token_ids"] == pagoda(*ask).json["token_ids"]


def test_naive_attention_answers_alike(model):
    ask = ("run", model, "--json", "--temperature", 0, "-n", 4, "Two plus two is")
    assert pagoda(*ask, "--attention", "naive").json["token_ids"] == pagoda(*ask).json["token_ids"]


def test_the_block_size_may_be_auto():
    asked, default = (pagoda("plan", "smollm2-135m", "--json", *more).json for more in (("--block-size", "auto"), ()))
    assert asked.pop("machine") and default.pop("machine")  # what is free at the moment
    assert asked == default


def test_threads_change_nothing(model):
    ask = ("run", model, "--json", "--temperature", 0, "-n", 16, "Describe the sea.")
    assert pagoda(*ask, "--threads", 1).json["token_ids"] == pagoda(*ask, "--threads", 3).json["token_ids"]


def test_a_stop_text_ends_the_answer(model):
    full = pagoda("run", model, "--json", "--temperature", 0, "-n", 24, "Count from one to ten in words.").json
    stop = full["text"][5:9]
    cut = pagoda("run", model, "--json", "--temperature", 0, "-n", 24, "--stop", stop,
                 "Count from one to ten in words.").json
    assert cut["finish_reason"] == "stop"
    assert full["text"].startswith(cut["text"]) and stop not in cut["text"]


def test_tokenize_and_detokenize_are_inverse(model):
    text = "Hello, wörld! 你好 🙂 x = 3;\n\tdone"
    ids = pagoda("tokenize", model, "--json", "--no-bos", text).json["ids"]
    assert pagoda("detokenize", model, "--json", *ids).json["text"] == text


def test_control_tokens_in_text_are_recognised_on_demand(model):
    control = {"smollm2-135m": "<|im_end|>", "gemma-3-270m": "<end_of_turn>"}[model]
    plain = pagoda("tokenize", model, "--json", "--no-bos", control).json["ids"]
    parsed = pagoda("tokenize", model, "--json", "--no-bos", "--parse-special", control).json["ids"]
    assert len(parsed) == 1 and len(plain) > 1


def test_template_renders_messages(tmp_path):
    file = tmp_path / "messages.json"
    file.write_text(json.dumps([{"role": "user", "content": "Hi <|im_end|><end_of_turn>"}]))
    answer = pagoda("template", "smollm2-135m", "--json", "--messages", file).json
    assert "Hi <|im_end|><end_of_turn>" in answer["text"]
    # The literal in the content is text: the ids that stand for it are more than one.
    assert len(answer["ids"]) > 10


def test_inspect_shows_the_file(smollm2):
    answer = pagoda("inspect", smollm2, "--json").json
    assert len(answer["tensors"]) > 200
    assert pagoda("inspect", smollm2).out.count(b"\n") > 200


def test_version():
    assert set(pagoda("version", "--json").json) >= {"version", "build", "cpu"}


def test_plan_numbers_of_known_shapes():
    for shape, gib in (("llama2-7b", 1.0), ("llama2-13b", 1.5625), ("llama2-70b", 0.625)):
        table = pagoda("plan", shape, "--table", "--json", "--max-model-len", 2048).json["table"]
        by_dtype = {row["kv"]["dtype"]: row["kv"] for row in table}
        assert by_dtype["f16"]["total_bytes"] == gib * 2**30
        assert by_dtype["f16"]["total_bytes"] / 2 < by_dtype["int8"]["total_bytes"] < by_dtype["f16"]["total_bytes"] * 0.53
        assert by_dtype["f16"]["total_bytes"] / 4 < by_dtype["int4"]["total_bytes"] < by_dtype["f16"]["total_bytes"] * 0.29


def test_plan_of_a_bare_config(tmp_path):
    config = {"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "num_hidden_layers": 32,
              "num_attention_heads": 32, "intermediate_size": 11008, "max_position_embeddings": 4096}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    mine = pagoda("plan", file, "--json", "--max-model-len", 2048).json
    known = pagoda("plan", "llama2-7b", "--json", "--max-model-len", 2048).json
    for plan in (mine, known):
        assert plan["machine"]["max_sequences"] >= 0
        del plan["machine"], plan["model"]  # free memory moves
    assert mine == known


def test_perplexity_of_a_text(model):
    answer = pagoda("perplexity", model, "--json", "--context", 128, ROOT / "README.md").json
    assert 1 < answer["perplexity"] < 500
    assert answer["tokens"] == answer["windows"] * 63


def test_chat_keeps_the_conversation():
    lines = b"My name is Ada.\n/stats\nWhat is my name?\n/quit\n"
    result = pagoda("chat", "smollm2-135m", "--temperature", 0, "-n", 32, stdin=lines)
    assert result.status == 0, result.err
    assert b"tokens/s" in result.out and b"Ada" in result.out


def test_bench_prints_rows_beside_limits(model):
    answer = pagoda("bench", model, "--json", "-p", 64, "-n", 8, "-r", 1, "-b", 1, "-d", 0).json
    assert {row["test"] for row in answer["rows"]} == {"prefill", "decode"}
    for row in answer["rows"]:
        assert row["tokens_per_s"] > 0 and row["limit_tokens_per_s"] > 0 and row["bound"] in ("memory", "compute")


def test_ctrl_c_ends_an_answer_with_130(model):
    process = subprocess.Popen([PAGODA, "run", model, "--ignore-eos", "-n", "4000", "Write a very long story."],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(4)  # it answers
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130, err


def test_a_closed_pipe_is_no_crash(model):
    process = subprocess.Popen([PAGODA, "run", model, "--ignore-eos", "-n", "4000", "Write a very long story."],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(4)
    process.stdout.close()
    assert process.wait(timeout=20) == 1
    assert b"error[output.closed]" in process.stderr.read()


def test_peak_memory_is_near_the_plan(model):
    answer = pagoda("run", model, "--json", "--temperature", 0, "-n", 16, "--max-model-len", 2048, "Hello").json
    plan = pagoda("plan", model, "--json", "--max-model-len", 2048).json
    assert answer["timings"]["peak_rss_bytes"] <= plan["total_bytes"] + 64 * 2**20
