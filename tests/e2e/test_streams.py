"""The standard streams: full, closed, never ending, interrupted."""
import signal
import subprocess
import time

import pytest

from conftest import PAGODA, pagoda

PRINTING = [("version",), ("--version",), ("run", "--help"), ("plan", "smollm2-135m", "--json"), ("inspect", "smollm2-135m"),
            ("tokenize", "smollm2-135m", "hi"), ("detokenize", "smollm2-135m", "5"), ("run", "smollm2-135m", "-n", "2", "hi")]


@pytest.mark.parametrize("arguments", PRINTING, ids=" ".join)
@pytest.mark.parametrize("stream", [">/dev/full", ">&-"])
def test_what_cannot_be_written_is_a_failure(arguments, stream):
    process = subprocess.run(["sh", "-c", f'"$0" "$@" {stream}', PAGODA, *arguments], stderr=subprocess.PIPE, timeout=120)
    assert process.returncode == 1, process.stderr
    assert b"error[output.closed]" in process.stderr


def test_chat_ends_when_nobody_reads():
    process = subprocess.run(["sh", "-c", '"$0" chat smollm2-135m -n 2 >/dev/full', PAGODA], input=b"hi\n/help\n" * 50,
                             stderr=subprocess.PIPE, timeout=120)
    assert process.returncode == 1, process.stderr


def test_a_closed_standard_input_is_no_prompt():
    process = subprocess.run(["sh", "-c", '"$0" run smollm2-135m <&-', PAGODA], capture_output=True, timeout=120)
    assert process.returncode == 2 and b"error[usage.file]" in process.stderr, process.stderr
    assert process.stdout == b""


@pytest.mark.parametrize("arguments", [("tokenize", "smollm2-135m", "--file", "/dev/zero"),
                                       ("perplexity", "smollm2-135m", "/dev/zero"),
                                       ("template", "smollm2-135m", "--messages", "/dev/zero"),
                                       ("tokenize", "smollm2-135m", "--file", "/"),
                                       ("perplexity", "smollm2-135m", "/"),
                                       ("template", "smollm2-135m", "--messages", "/")], ids=" ".join)
def test_a_text_that_is_no_text_file(arguments):
    result = pagoda(*arguments)
    assert result.status == 2, result.err
    assert b"error[usage.file]" in result.err and result.out == b""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("command", ["run", "tokenize", "chat"])
def test_an_interrupt_while_input_is_awaited(command, number):
    process = subprocess.Popen([PAGODA, command, "smollm2-135m"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    time.sleep(1)  # at any moment the status is the same
    process.send_signal(number)
    assert process.wait(timeout=60) == 130
