"""What the machine cannot do is said with the flag that helps."""
import subprocess

from conftest import PAGODA, pagoda


def test_a_step_too_large_for_the_machine(smollm2):
    result = pagoda("run", smollm2, "--max-num-batched-tokens", 1 << 20, "x")
    if result.status != 0:  # a machine that has the memory answers
        assert result.status == 4 and b"error[kv.alloc_failed]" in result.err, result.err
        assert b"lower --max-num-batched-tokens" in result.err


def test_threads_that_cannot_be_started(smollm2):
    command = f"ulimit -v 2000000; exec {PAGODA} run {smollm2} --threads 4096 -n 1 hi"
    process = subprocess.run(["bash", "-c", command], capture_output=True, timeout=120)
    assert process.returncode == 4, process.stderr
    assert b"error[cpu.threads]" in process.stderr and b"--threads" in process.stderr


def test_a_file_larger_than_the_address_space_that_is_left(smollm2):
    process = subprocess.run(["bash", "-c", f"ulimit -v 90000; exec {PAGODA} inspect {smollm2}"], capture_output=True, timeout=120)
    assert process.returncode == 4, process.stderr
    assert b"error[memory.alloc_failed]" in process.stderr and process.stdout == b""
