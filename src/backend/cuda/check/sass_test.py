"""The machine code of the CUDA kernels is what was meant: `sass_test.py CUOBJDUMP OBJECT...` disassembles the sm_90a
code of the given objects. No kernel keeps anything in local memory; decode kernels load by bulk copies and multiply by
mma.sync of 16-bit operands, the wide one by wgmma of 16 columns; none divides integers in its producer's inner loop
(which once cost a quarter of the speed). Prefill kernels multiply by wgmma as wide as their key tile and head, in
products that nothing serialises, load by bulk copies and boxes, have their exponentials under P V, before the wait for
it, and write no weights over those that a product still reads. Those by mma.sync multiply by m16n8k16 as often as their
tile asks, read each fragment once, and load by 16-byte copies."""
import collections
import os
import re
import subprocess
import sys


def kernels(cuobjdump: str, path: str) -> dict[str, list[str]]:
    """Mangled name of each sm_90a kernel of an object: its instructions, without predicates."""
    env = dict(os.environ, PATH=os.path.dirname(cuobjdump) + os.pathsep + os.environ["PATH"])
    text = subprocess.run([cuobjdump, "-sass", "-arch", "sm_90a", path], capture_output=True, text=True, env=env).stdout
    found, name = {}, None
    for line in text.splitlines():
        if match := re.match(r"\s*Function : (\S+)", line):
            name = match.group(1)
            found[name] = []
        elif name and (match := re.match(r"\s*/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\d+\s+|@!?UPT\s+)?([A-Z][^;]*);", line)):
            found[name].append(match.group(1).strip())
    return found


def wrong_with(name: str, text: list[str]) -> list[str]:
    code = [instruction.split()[0] for instruction in text]
    count = collections.Counter(op.split(".")[0] for op in code)
    full = collections.Counter(code)
    prefill = re.search(r"prefill_kernelINS0_15PrefillGeometryILb\dELi(\d+)ELi(\d+)E", name)
    wrong = [f"{count[op]} x {op}" for op in ("LDL", "STL") if count[op]]
    if prefill:
        wrong += wrong_with_prefill(text, code, dims=int(prefill[1]), keys=int(prefill[2]))
    mma = re.search(r"prefill_mma_kernelINS0_18PrefillMmaGeometryILb\dELi(\d+)ELi(\d+)ELi\d+ELi(\d)E", name)
    if mma:
        wrong += wrong_with_prefill_mma(code, count, *(int(x) for x in mma.groups()))
    decode = re.search(r"decode_kernelINS0_8GeometryILNS0_6FormatE(\d)ELi(\d+)EEELi(\d)E", name)
    if decode:
        if not count["UBLKCP"]:
            wrong.append("no bulk copy")
        if count["LDGSTS"]:
            wrong.append("16-byte copies beside the bulk copies")
        hgmma = {op for op in full if op.startswith("HGMMA")}
        wide = decode[3] == "2"
        if wide and (not hgmma or any("64x16x16" not in op for op in hgmma)):
            wrong.append(f"wgmma of another shape than 64x16x16: {hgmma}")
        if not wide and (hgmma or not any(op.startswith("HMMA.16816") for op in full)):
            wrong.append("no mma.sync m16n8k16")
        if not any(op.startswith("MUFU.EX2") for op in full):
            wrong.append("no exponential by the special-function unit")
        copies = [i for i, op in enumerate(code) if op.startswith("UBLKCP")]
        if any(op.startswith("MUFU.RCP") for i in copies for op in code[max(0, i - 60):i]):
            wrong.append("an integer division before a bulk copy: the producer's loop is short of time")
    return wrong


def wrong_with_prefill(text: list[str], code: list[str], dims: int, keys: int) -> list[str]:
    wrong = [f"no {op}" for op in ("UBLKCP", "UTMALDG") if not any(c.startswith(op) for c in code)]
    shapes = {match[1] for op in code if (match := re.match(r"HGMMA\.(\w+)", op))}
    if shapes != {f"64x{keys}x16", f"64x{dims}x16"}:
        wrong.append(f"wgmma of other shapes: {shapes}")
    # Products: Q K of the first key tile; Q K and P V of two steps and of two plain ones; P V of the two ends.
    products, steps = [], (dims // 16, keys // 16)
    multiplies = [i for i, op in enumerate(code) if op.startswith("HGMMA")]
    for i in multiplies:
        if not products or "gsb0" in text[products[-1][-1]]:
            products.append([])
        products[-1].append(i)
    if [len(p) for p in products] != [steps[0], *(steps * 4), steps[1], steps[1]]:
        return wrong + [f"products are serialised, or others: {[len(p) for p in products]}"]
    for product in products:
        if code[product[0]:product[-1]].count("R2UR") > 4:
            wrong.append("descriptors come from vector registers one by one")
    waits = [i for i, op in enumerate(code) if op.startswith("WARPGROUP.DEPBAR")]
    for product in products[2:9:2]:
        s_ready, o_ready = [i for i in waits if i > product[-1]][:2]
        if code[s_ready:o_ready].count("MUFU.EX2") < keys // 2:
            wrong.append("exponentials are not under P V")
        read = {int(m[1]) + r for i in product if (m := re.match(r"\S+ R\d+, R(\d+)", text[i])) for r in range(4)}
        written = {int(m[1]) for i in text[product[-1]:o_ready] if (m := re.match(r"F2FP\S* R(\d+)", i))}
        if len(read) != keys // 4 or read & written:
            wrong.append(f"weights are written over those in use: registers {sorted(read & written)}")
    return wrong


def wrong_with_prefill_mma(code: list[str], count: collections.Counter, dims: int, keys: int, row_tiles: int) -> list[str]:
    wrong = []
    products = 2 * row_tiles * (keys // 8) * (dims // 16)  # Q K, then P V, of a warp
    if count["HMMA"] != products or any(op.startswith("HMMA") and not op.startswith("HMMA.16816.F32") for op in code):
        wrong.append(f"{count['HMMA']} products of {products} m16n8k16: the loop is there twice or not whole")
    fragments = dims // 16 * (row_tiles + 2 * (keys // 16))  # of Q, K and V
    if count["LDSM"] != fragments:
        wrong.append(f"{count['LDSM']} x LDSM for {fragments} fragments")
    if not count["LDGSTS"]:
        wrong.append("no 16-byte asynchronous copies")
    return wrong


def main() -> int:
    total, bad = 0, 0
    for path in sys.argv[2:]:
        for name, code in kernels(sys.argv[1], path).items():
            total += 1
            for wrong in wrong_with(name, code):
                bad += 1
                print(f"{os.path.basename(path)}: {name}: {wrong}")
    print(f"sass_test: {total} kernels, {bad} wrong")
    return 1 if bad or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
