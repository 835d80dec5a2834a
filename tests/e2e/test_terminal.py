"""chat on a terminal: what is typed arrives, and Ctrl-C gives up the line or the answer, never the program."""
import os
import pty
import select
import signal
import time

import pytest

from conftest import PAGODA

PROMPT = b"\r\n> "


class Terminal:
    def __init__(self, *arguments):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(PAGODA, [PAGODA, *arguments], {**os.environ, "LC_ALL": "C", "TERM": "xterm"})

    def type(self, text: str):
        os.write(self.fd, text.encode())

    def until(self, what: bytes, timeout: float = 120) -> bytes:
        seen, end = b"", time.monotonic() + timeout
        while what not in seen:
            assert time.monotonic() < end, seen
            if select.select([self.fd], [], [], 1)[0]:
                seen += os.read(self.fd, 4096)
        return seen

    def status(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def chat():
    terminal = Terminal("chat", "smollm2-135m", "--temperature", "0", "--ignore-eos", "-n", "6000")
    terminal.until(PROMPT)
    yield terminal
    os.close(terminal.fd)


def test_letters_beyond_ascii_are_typed(chat, tmp_path):
    chat.type(f"/save {tmp_path}/né你🙂.json\n")
    chat.until(b"Saved")
    assert (tmp_path / "né你🙂.json").exists()


def test_ctrl_c_gives_up_the_line_and_then_the_answer(chat):
    for _ in range(3):
        chat.type("half a line\x03")
        chat.until(b"^C" + PROMPT)
    chat.type("Write a long story.\n")
    chat.until(b" ")
    chat.until(b" the")
    chat.type("\x03")
    chat.until(PROMPT)
    chat.type("/quit\n")
    assert chat.status() == 0


def test_sigterm_at_the_prompt_ends_the_program(chat):
    os.kill(chat.pid, signal.SIGTERM)
    assert chat.status() == 130


def test_a_conversation_that_cannot_be_saved(chat):
    for path in ("/no/such/folder/x", "/dev/full"):
        chat.type(f"/save {path}\n")
        chat.until(b"Cannot write " + path.encode())
