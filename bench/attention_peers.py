"""cuDNN and FlashAttention-2 through PyTorch on bench_attention's decode lines, by the same protocol: a CUDA graph
of at least 20 launches over at least 260 MB of random KV (contiguous: what they read best), median of replays. Also
their error against float64. Prints a table; --json FILE writes {line: {peer: us}}."""
import json
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

LINES = [  # name, B, keys, H, KH, D
    ("B1 32/8 1k", 1, 1024, 32, 8, 128), ("B1 32/8 4k", 1, 4096, 32, 8, 128), ("B1 32/8 131k", 1, 131072, 32, 8, 128),
    ("B16 32/8 4k", 16, 4096, 32, 8, 128), ("B64 32/8 4k", 64, 4096, 32, 8, 128), ("B64 32/8 16k", 64, 16384, 32, 8, 128),
    ("B256 32/8 1k", 256, 1024, 32, 8, 128), ("B1 64/8 8k", 1, 8192, 64, 8, 128), ("B32 64/8 4k", 32, 4096, 64, 8, 128),
    ("MHA B64 4k", 64, 4096, 32, 32, 128), ("MQA B1 131k", 1, 131072, 32, 1, 128), ("MQA B64 4k", 64, 4096, 32, 1, 128),
    ("MQA B64 16k", 64, 16384, 32, 1, 128), ("hd64 32/8 B64 4k", 64, 4096, 32, 8, 64), ("hd256 16/4 B64 4k", 64, 4096, 16, 4, 256)]
PEERS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FA2": SDPBackend.FLASH_ATTENTION}


def graph_us(call, copies: int) -> float:
    launches = max(20, copies)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(3):
            call(i % copies)
        stream.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            for i in range(launches):
                call(i % copies)
        times = []
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        while len(times) < 5 or (sum(times) < 25 and len(times) < 60):
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end))
    return sorted(times[1:])[len(times[1:]) // 2] * 1000 / launches


def error(backend: SDPBackend) -> float:
    q, k, v = (torch.randn(4, h, n, 128, device="cuda").bfloat16() for h, n in ((32, 1), (8, 3000), (8, 3000)))
    with sdpa_kernel(backend):
        out = scaled_dot_product_attention(q, k, v, enable_gqa=True).double()
    k, v = (x.double().repeat_interleave(4, 1) for x in (k, v))
    want = torch.softmax(q.double() @ k.transpose(2, 3) / 128 ** 0.5, -1) @ v
    return ((out - want).norm(dim=-1) / want.norm(dim=-1)).max().item()


def main() -> None:
    results = {}
    for peer, backend in PEERS.items():
        print(f"{peer} worst row error against float64: {error(backend):.1e}")
    print(f"{'line':<26}" + "".join(f"{p:>10}" for p in PEERS))
    for name, batch, keys, heads, kv_heads, dim in LINES:
        bytes_each = batch * keys * kv_heads * dim * 4
        copies = -(-(260 << 20) // bytes_each)
        q = torch.randn(batch, heads, 1, dim, device="cuda").bfloat16()
        kv = [torch.randn(2, batch, kv_heads, keys, dim, device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
        row = results[name] = {}
        for peer, backend in PEERS.items():
            def call(i: int):
                with sdpa_kernel(backend):
                    return scaled_dot_product_attention(q, kv[i][0], kv[i][1], enable_gqa=heads != kv_heads)
            try:
                row[peer] = graph_us(call, copies)
            except RuntimeError as wrong:
                row[peer] = float("nan")
                print(f"{peer} {name}: {str(wrong)[:80]}")
        print(f"{name:<26}" + "".join(f"{row[p]:>10.1f}" for p in PEERS), flush=True)
        del kv
    if "--json" in sys.argv:
        with open(sys.argv[sys.argv.index("--json") + 1], "w") as file:
            json.dump(results, file)


if __name__ == "__main__":
    main()
