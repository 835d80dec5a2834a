"""cuDNN through PyTorch on bench_prefill's fixed lines, and FlashAttention-2 on those of the mma.sync kernels, by the
same protocol (hot: after 1.2 s of load; rested: 10 launches after 0.4 s of idling), beside this project's figures of
the same run. prefill_peers.py [OURS.json]"""
import json
import sys
import time

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def median_ms(call, launches: int) -> float:
    events = [torch.cuda.Event(enable_timing=True) for _ in range(launches + 1)]
    events[0].record()
    for event in events[1:]:
        call()
        event.record()
    events[-1].synchronize()
    return sorted(a.elapsed_time(b) for a, b in zip(events, events[1:]))[launches // 2]


def hot_and_rested(call) -> tuple[float, float]:
    call()
    torch.cuda.synchronize()
    begin = time.monotonic()
    while time.monotonic() - begin < 1.2:
        for _ in range(4):
            call()
        torch.cuda.synchronize()
    hot = median_ms(call, 11)
    time.sleep(0.4)
    for _ in range(3):
        call()
    return hot, median_ms(call, 7)


def line(name: str, peer: str, shape: tuple[int, int, int], length: int, causal: bool, ours: dict) -> None:
    dim, heads, kv_heads = shape
    batch = 16384 // length
    q, k, v = (torch.randn(batch, length, h, dim, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
               for h in (heads, kv_heads, kv_heads))
    backend = SDPBackend.CUDNN_ATTENTION if peer == "cuDNN" else SDPBackend.FLASH_ATTENTION

    def call():
        with sdpa_kernel(backend):
            return scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=heads != kv_heads)
    flops = 4 * batch * heads * length * length * dim / (2 if causal else 1)
    hot, rested = (flops / ms * 1e-9 for ms in hot_and_rested(call))
    mine = ours.get(name, [float("nan")] * 2)
    print(f"{name:<24}{peer:>8}{hot:>10.0f}{rested:>8.0f}{mine[0]:>10.0f}{mine[1]:>8.0f}"
          f"{mine[0] / hot:>11.2f}{mine[1] / rested:>8.2f}", flush=True)


def main() -> None:
    ours = {}
    if len(sys.argv) > 1:
        with open(sys.argv[1]) as file:
            ours = json.load(file)
    print(f"{'line':<24}{'peer':>8}{'hot':>10}{'rested':>8}{'ours hot':>10}{'rested':>8}{'ratio hot':>11}{'rested':>8}")
    for shape in ((128, 32, 8), (128, 16, 16), (64, 32, 32), (256, 8, 8)):
        for length, causal in ((1024, True), (4096, True), (16384, True), (4096, False)):
            name = f"hd{shape[0]} {shape[1]}/{shape[2]} {length // 1024}k{'' if causal else ' full'}"
            line(name, "cuDNN", shape, length, causal, ours)
    for shape in ((128, 32, 8), (64, 32, 32), (256, 8, 8)):
        for length in (1024, 4096, 16384):
            line(f"hd{shape[0]} {shape[1]}/{shape[2]} {length // 1024}k mma", "FA2", shape, length, True, ours)


if __name__ == "__main__":
    main()
