#!/usr/bin/env python3
"""Makes tests/golden/answers_NAME.json: llama.cpp's greedy answers to the prompts of tools/golden_prompts.json,
and how far a float32 reference (tools/float_reference.py) is from them on the same tokens.

  python3 tools/make_golden_answers.py smollm2 MODEL.gguf

Needs numpy, gguf, jinja2 and llama-cpp-python (its low-level binding; LLAMA_CPP_LIB_PATH names a folder with
another build of libllama.so). llama.cpp runs on the CPU in its default form: KV cache in f16, activations
quantised to 8 bits for quantised weights. It goes on to 64 tokens even behind an end-of-answer token.

One file: {model, sha256, vocab_size, reference, num_tokens, agreement, prompts}. Each prompt has
  name, kind, text          what was asked (chat: behind the template; a model without one gets plain text)
  prompt_ids, answer_ids    ids; the answer has 64
  end                       index of the first end-of-answer token in answer_ids, or null
  gaps                      per step: the difference of the reference's two largest logits
  steps                     per step: {ids, logprobs}, the largest K first (K = 64 on every eighth step, else
                            10), natural logarithms over the whole vocabulary, rounded to 1e-4
  float32                   {kl, kl_top, max_kl, margins, wrong}: llama.cpp against float32: the KL divergence over
                            the whole vocabulary and by the estimator below, means over the steps; per step the
                            answer's logit less the largest other one; the steps where that is negative
`agreement` sums float32 up over all prompts: mean_kl, mean_kl_top, max_kl, num_steps, wrong, and wrong_above_gap,
the steps where the references' argmax differs although llama.cpp's gap is above 0.3: there is no one's word for
these. A step is clear, and an engine's argmax must be the answer, where both gap and margin are above 0.3.
`float32` is exact to KL 1e-5: llama.cpp says the same of both models when their weights are dequantised first
(six prompts).

The estimator, for reference P (llama.cpp) and an engine Q, per step with its stored ids S:
  KL_top = sum_{i in S} p_i (log p_i - log q_i) + p_rest (log p_rest - log q_rest),  *_rest = 1 - sum_{S}
with both rests at least 1e-7. By the log-sum inequality it is at most KL(P || Q); it is equal when Q's shape
outside S is P's. q_i needs Q's log-softmax over its whole vocabulary.
"""
import argparse
import ctypes
import hashlib
import json
import pathlib

import llama_cpp.llama_cpp as llama
import numpy as np
from float_reference import FloatModel
from make_template_goldens import CASES, environment

HERE = pathlib.Path(__file__).resolve().parent
GOLDEN = HERE.parent / "tests" / "golden"
QUIET = llama.llama_log_callback(lambda *_: None)  # must live as long as llama.cpp may log
NUM_TOKENS, TOP, WIDE_TOP, WIDE_EVERY, CLEAR_GAP = 64, 10, 64, 8, 0.3


class Reference:
    """llama.cpp on one GGUF file."""

    def __init__(self, path, threads):
        llama.llama_backend_init()
        llama.llama_log_set(QUIET, None)
        params = llama.llama_model_default_params()
        self.model = llama.llama_model_load_from_file(str(path).encode(), params)
        self.vocab = llama.llama_model_get_vocab(self.model)
        self.vocab_size = llama.llama_vocab_n_tokens(self.vocab)
        params = llama.llama_context_default_params()
        params.n_ctx, params.n_threads, params.n_threads_batch = 2048, threads, threads
        self.context = llama.llama_init_from_model(self.model, params)

    def tokenize(self, text, special):
        """`special`: control tokens are recognised; the template wrote them, BOS included."""
        data = text.encode()
        ids = (llama.llama_token * (len(data) + 8))()
        count = llama.llama_tokenize(self.vocab, data, len(data), ids, len(ids), not special, special)
        assert count > 0
        return list(ids[:count])

    def piece(self, token):
        buffer = ctypes.create_string_buffer(256)
        return buffer.raw[: llama.llama_token_to_piece(self.vocab, token, buffer, 256, 0, True)].decode()

    def is_end(self, token):
        return llama.llama_vocab_is_eog(self.vocab, token)

    def decode(self, ids):
        tokens = (llama.llama_token * len(ids))(*ids)
        assert llama.llama_decode(self.context, llama.llama_batch_get_one(tokens, len(ids))) == 0
        logits = llama.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(logits, shape=(self.vocab_size,)).astype(np.float64)

    def greedy(self, prompt_ids):
        """(answer ids, logits that chose each of them [64, V])"""
        llama.llama_memory_clear(llama.llama_get_memory(self.context), True)
        rows = [self.decode(prompt_ids)]
        answer = [int(rows[0].argmax())]
        while len(answer) < NUM_TOKENS:
            rows.append(self.decode(answer[-1:]))
            answer.append(int(rows[-1].argmax()))
        return answer, np.array(rows)


def log_softmax(logits):
    shifted = logits - logits.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def kl_top(ids, p, q):
    """The estimator of the head comment, from log-probabilities over the whole vocabulary."""
    p, q = p[ids], q[ids]
    p_rest, q_rest = (max(1 - np.exp(x).sum(), 1e-7) for x in (p, q))
    return float((np.exp(p) * (p - q)).sum() + p_rest * np.log(p_rest / q_rest))


def render(case, reference, template):
    """(text, whether control tokens in it are the template's)"""
    if case["kind"] == "raw":
        return case["text"], False
    if case["kind"] == "text":
        begin, end = case["bytes"]
        return (GOLDEN / "text.txt").read_bytes()[begin:end].decode(errors="ignore"), False
    turns = case.get("turns") or [case["user"]]
    if template is None:
        lines = [f"{('Question', 'Answer')[i % 2]}: {turn}" for i, turn in enumerate(turns)]
        system = [case["system"]] if "system" in case else []
        return "\n\n".join(system + lines + ["Answer:"]), False
    messages = [{"role": "system", "content": case["system"]}] if "system" in case else []
    messages += [{"role": ("user", "assistant")[i % 2], "content": turn} for i, turn in enumerate(turns)]
    bos = reference.piece(llama.llama_vocab_bos(reference.vocab))
    return template.render(messages=messages, add_generation_prompt=True, bos_token=bos), True


def prompt_ids(text, special, case, reference):
    """Text of the user's that names a control token is no control token (it is tokenised apart)."""
    content = case.get("user", "")
    if not special or "<|" not in content:
        return reference.tokenize(text, special)
    before, after = text.split(content)
    begin, end = reference.tokenize(before, True), reference.tokenize(after, True)
    bos = llama.llama_vocab_bos(reference.vocab)
    middle = reference.tokenize(content, False)
    return begin + (middle[1:] if llama.llama_vocab_get_add_bos(reference.vocab) and middle[0] == bos else middle) + end


def step_record(number, row):
    ids = np.argsort(-row, kind="stable")[: WIDE_TOP if number % WIDE_EVERY == 0 else TOP]
    return {"ids": ids.tolist(), "logprobs": [round(float(row[i]), 4) for i in ids]}


def answer_record(case, reference, template, second):
    text, special = render(case, reference, template)
    ids = prompt_ids(text, special, case, reference)
    answer, logits = reference.greedy(ids)
    p = log_softmax(logits)
    q = log_softmax(second.logits(np.array(ids + answer[:-1]), len(ids) - 1).astype(np.float64))
    steps = [step_record(i, row) for i, row in enumerate(p)]
    top = np.sort(logits, axis=1)[:, -2:]
    gaps = top[:, 1] - top[:, 0]
    kl = (np.exp(p) * (p - q)).sum(axis=1)
    estimates = [kl_top(step["ids"], p[i], q[i]) for i, step in enumerate(steps)]
    steps_at = np.arange(len(answer))
    others = q.copy()
    others[steps_at, answer] = -np.inf
    margins = q[steps_at, answer] - others.max(axis=1)
    wrong = np.flatnonzero(margins < 0)
    print(f"  {case['name']}: {len(ids)} tokens, KL {kl.mean():.5f}, {len(wrong)} other argmax", flush=True)
    return {
        "name": case["name"], "kind": case["kind"], "text": text, "prompt_ids": ids, "answer_ids": answer,
        "end": next((i for i, token in enumerate(answer) if reference.is_end(token)), None),
        "gaps": [round(float(gap), 4) for gap in gaps], "steps": steps,
        "float32": {"kl": float(kl.mean()), "kl_top": float(np.mean(estimates)), "max_kl": float(kl.max()),
                    "margins": [round(float(m), 4) for m in margins], "wrong": wrong.tolist()},
    }


def agreement(prompts):
    def mean(key):
        return float(np.mean([p["float32"][key] for p in prompts]))

    above = [f"{p['name']}[{i}]" for p in prompts for i in p["float32"]["wrong"] if p["gaps"][i] > CLEAR_GAP]
    return {"mean_kl": mean("kl"), "mean_kl_top": mean("kl_top"),
            "max_kl": max(p["float32"]["max_kl"] for p in prompts), "num_steps": NUM_TOKENS * len(prompts),
            "wrong": sum(len(p["float32"]["wrong"]) for p in prompts), "wrong_above_gap": above}


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("name")
    options.add_argument("model", type=pathlib.Path)
    options.add_argument("--threads", type=int, default=2)
    args = options.parse_args()
    own = CASES / f"model-{args.model.stem}.jinja"  # taken over by make_template_goldens.py --models
    template = environment().from_string(own.read_text()) if own.exists() else None
    reference, second = Reference(args.model, args.threads), FloatModel(args.model)
    prompts = [answer_record(case, reference, template, second)
               for case in json.loads((HERE / "golden_prompts.json").read_text())]
    head = {"model": args.model.name, "sha256": hashlib.sha256(args.model.read_bytes()).hexdigest(),
            "vocab_size": reference.vocab_size, "reference": "llama.cpp, CPU, f16 KV cache",
            "num_tokens": NUM_TOKENS, "agreement": agreement(prompts)}
    lines = ",\n".join(json.dumps(p, ensure_ascii=False, separators=(",", ":")) for p in prompts)
    out = GOLDEN / f"answers_{args.name}.json"
    out.write_text(json.dumps(head, ensure_ascii=False)[:-1] + f',\n"prompts": [\n{lines}\n]}}\n')
    print(json.dumps(head["agreement"]), out.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
