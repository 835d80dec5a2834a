"""A float32 forward pass of the two golden models in numpy, straight from the papers: no cache, no batching,
the GGUF weights dequantised first. It shares nothing with the engine, so that an error of one is not in both.

  model = FloatModel("model.gguf"); logits = model.logits(ids, first)   # [len(ids) - first, V] float32

LLaMA (Touvron et al. 2023): RMSNorm, rotary pairs (2i, 2i+1) as GGUF permutes them, grouped-query attention,
SwiGLU. Gemma 3 (2025): the embedding times sqrt(C), norms before and after each half (GGUF holds 1 + w), norms
of q and k, rotary pairs (i, i + D/2), a window of 512 with theta 10000 on five layers of six, GeGLU (tanh).
"""
import numpy as np
from gguf import GGUFReader, dequantize


def rms_norm(x, weight, epsilon):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(epsilon)) * weight


def rotary(x, theta, interleaved):
    """x: [T, heads, D] at positions 0..T-1."""
    num_tokens, _, size = x.shape
    frequency = theta ** (-np.arange(0, size, 2, dtype=np.float64) / size)
    angle = np.arange(num_tokens, dtype=np.float64)[:, None] * frequency
    cos, sin = (f(angle).astype(np.float32)[:, None, :] for f in (np.cos, np.sin))
    out = np.empty_like(x)
    if interleaved:
        a, b = x[..., 0::2], x[..., 1::2]
        out[..., 0::2], out[..., 1::2] = a * cos - b * sin, a * sin + b * cos
    else:
        half = size // 2
        a, b = x[..., :half], x[..., half:]
        out[..., :half], out[..., half:] = a * cos - b * sin, a * sin + b * cos
    return out


def attention(q, k, v, window):
    """q: [T, H, D], k and v: [T, KH, D]; a query sees itself and the window - 1 tokens before it."""
    num_tokens, heads, size = q.shape
    group = heads // k.shape[1]
    age = np.arange(num_tokens)[:, None] - np.arange(num_tokens)[None, :]
    hidden = (age < 0) | (age >= window)
    out = np.empty_like(q)
    for head in range(heads):
        scores = q[:, head] @ k[:, head // group].T / np.float32(np.sqrt(size))
        scores[hidden] = -np.inf
        weights = np.exp(scores - scores.max(axis=1, keepdims=True))
        out[:, head] = weights @ v[:, head // group] / weights.sum(axis=1, keepdims=True)
    return out.reshape(num_tokens, -1)


def silu(x):
    return x / (1 + np.exp(-x))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(np.float32(np.sqrt(2 / np.pi)) * (x + np.float32(0.044715) * x ** 3)))


class FloatModel:
    def __init__(self, path):
        reader = GGUFReader(str(path))
        self.tensors = {t.name: dequantize(t.data, t.tensor_type).astype(np.float32) for t in reader.tensors}
        self.architecture = self.field(reader, "general.architecture")
        assert self.architecture in ("llama", "gemma3"), self.architecture
        self.gemma = self.architecture == "gemma3"

        def number(key):
            return self.field(reader, f"{self.architecture}.{key}")

        self.layers = number("block_count")
        self.heads = number("attention.head_count")
        self.kv_heads = number("attention.head_count_kv")
        self.epsilon = number("attention.layer_norm_rms_epsilon")
        self.theta = number("rope.freq_base")
        self.window = number("attention.sliding_window") if self.gemma else None
        if not self.gemma:
            assert number("rope.dimension_count") == number("embedding_length") // self.heads

    @staticmethod
    def field(reader, key):
        return reader.fields[key].contents()

    def weight(self, layer, name):
        return self.tensors[f"blk.{layer}.{name}.weight"]

    def attend(self, layer, x):
        num_tokens = len(x)
        q, k, v = (
            (x @ self.weight(layer, f"attn_{name}").T).reshape(num_tokens, heads, -1)
            for name, heads in (("q", self.heads), ("k", self.kv_heads), ("v", self.kv_heads)))
        local = self.gemma and (layer + 1) % 6 != 0
        if self.gemma:
            q = rms_norm(q, self.weight(layer, "attn_q_norm"), self.epsilon)
            k = rms_norm(k, self.weight(layer, "attn_k_norm"), self.epsilon)
        theta = 10000.0 if local else self.theta
        q, k = (rotary(t, theta, interleaved=not self.gemma) for t in (q, k))
        return attention(q, k, v, self.window if local else num_tokens) @ self.weight(layer, "attn_output").T

    def feed_forward(self, layer, x):
        act = gelu_tanh if self.gemma else silu
        gate = act(x @ self.weight(layer, "ffn_gate").T)
        return (gate * (x @ self.weight(layer, "ffn_up").T)) @ self.weight(layer, "ffn_down").T

    def logits(self, ids, first=0):
        """The logits of the positions from `first` on: [len(ids) - first, V]."""
        x = self.tensors["token_embd.weight"][ids]
        if self.gemma:
            x = x * np.float32(np.sqrt(x.shape[1]))
        for layer in range(self.layers):
            y = self.attend(layer, rms_norm(x, self.weight(layer, "attn_norm"), self.epsilon))
            if self.gemma:
                y = rms_norm(y, self.weight(layer, "post_attention_norm"), self.epsilon)
            x = x + y
            y = self.feed_forward(layer, rms_norm(x, self.weight(layer, "ffn_norm"), self.epsilon))
            if self.gemma:
                y = rms_norm(y, self.weight(layer, "post_ffw_norm"), self.epsilon)
            x = x + y
        x = rms_norm(x[first:], self.tensors["output_norm.weight"], self.epsilon)
        return x @ self.tensors.get("output.weight", self.tensors["token_embd.weight"]).T
