"""Logs as they come: cut anywhere, coloured, overwritten, packed, endless, not text."""

import gzip
import io
import tracemalloc

import pytest

from tpuops.diagnosis import report_of
from tpuops.diagnosis.engine import packaged_engine
from tpuops.diagnosis.examine import examine
from tpuops.diagnosis.lines import line_ends
from tpuops.diagnosis.reading import BLOCK, LONGEST, blocks, chunks_of, clean
from tpuops.diagnosis.scan import scanned

FAILURE = b"OSError: [Errno 28] No space left on device\n"
NOISE = b"I0301 10:00:00.000001 7 loader.py:1] shard %d opened\n"
KEY_ERROR = b'Traceback (most recent call last):\n  File "train.py", line 9, in f\nKeyError: 5\n'
LOG = b"".join(NOISE % n for n in range(9_000)) + FAILURE + b"".join(NOISE % n for n in range(500))


def judged(chunks):
    return examine(chunks, packaged_engine())


@pytest.mark.parametrize("size", [1, 7, 100, 4096, BLOCK, 10**9])
def test_the_line_number_does_not_depend_on_where_chunks_end(size):
    text = LOG if size > 50 else LOG[-40_000:]
    line = text[: text.index(FAILURE)].count(b"\n") + 1
    judgement = judged(text[at : at + size] for at in range(0, len(text), size))
    assert (judgement.failure_class, judgement.line_number) == ("disk_full", line)


def test_a_message_wrapped_over_the_border_of_two_blocks_is_whole():
    filler = NOISE % 1 * (BLOCK // len(NOISE % 1))
    for shift in range(0, 120, 7):
        text = filler + b"x" * shift + b"\nMissing XLA\nconfiguration\n" + filler
        assert judged([text[:BLOCK], text[BLOCK:]]).failure_class == "tpu_not_found"


def test_the_last_line_needs_no_line_end():
    assert judged([FAILURE.rstrip()]).failure_class == "disk_full"


def test_no_hit_is_counted_twice_where_blocks_overlap():
    text = FAILURE + NOISE % 1 * 20_000
    log = scanned(packaged_engine(), (text[at : at + 5000] for at in range(0, len(text), 5000)))
    assert sum(hit.count for hit in log.pending if hit.signature.id == "no-space") == 1


def test_gzip_is_read_from_a_path_and_from_a_stream(tmp_path):
    path = tmp_path / "worker-3.log.gz"
    path.write_bytes(gzip.compress(LOG))
    assert report_of([path])["class"] == "disk_full"
    assert report_of([path])["worker"] == 3
    assert report_of([("-", io.BytesIO(gzip.compress(LOG)))])["class"] == "disk_full"


def test_a_damaged_gzip_is_read_as_far_as_it_goes():
    packed = gzip.compress(FAILURE * 3 + LOG)
    assert report_of([packed[: len(packed) // 2]])["class"] == "disk_full"


def test_colours_and_carriage_returns_are_undone_without_moving_lines():
    assert clean(b"a\x1b[1;31mb\x1b[0m\r\nc\rd\n") == b"ab\nc\x0bd\n"
    text = b"one\r\n\x1b[31mNo sp\x1b[0mace left on device\r\n"
    assert judged([text]).line_number == 2


def test_bytes_that_are_no_text_are_only_other_bytes():
    document = report_of([b"\xff\xfe\x00\x9f\n" + b"\xe2\x28No space left on device \xc3\n"])
    assert document["class"] == "disk_full"
    assert "No space left" in document["decisive_line"]


def test_a_line_without_end_is_read_in_pieces_of_bounded_size():
    endless = b"x" * (3 * LONGEST) + b" No space left on device " + b"y" * (2 * LONGEST)
    pieces = list(blocks(endless[at : at + BLOCK] for at in range(0, len(endless), BLOCK)))
    assert max(len(piece.data) for piece in pieces) <= LONGEST + BLOCK
    judgement = judged([endless])
    assert (judgement.failure_class, judgement.line_number) == ("disk_full", 1)
    assert len(judgement.line) < 10_000


def test_an_empty_log_is_unknown():
    assert report_of([b""])["class"] == "unknown"
    assert report_of([b"\n\n\n"])["class"] == "unknown"


def test_memory_is_flat_in_the_size_of_the_log():
    def stream(count):
        piece = (NOISE % 1) * 4000 + FAILURE
        return (piece for _ in range(count))

    peaks = []
    judged(stream(2))
    for count in (20, 120):
        tracemalloc.start()
        judged(stream(count))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] * 1.2 + 100_000


def test_work_a_block_is_bounded_however_often_a_signature_fires():
    log = scanned(packaged_engine(), [FAILURE * 20_000])
    assert len(log.pending) <= 8  # two signatures know the line, four hits of each are kept


def test_a_stream_is_read_to_its_end_and_left_open():
    stream = io.BytesIO(LOG)
    assert b"".join(chunks_of(stream)) == LOG
    assert not stream.closed


def test_several_logs_give_a_list_in_their_order():
    classes = [each["class"] for each in report_of([LOG, b"step=1 loss=2\nstep=2 loss=1\n", b""])]
    assert classes == ["disk_full", "healthy", "unknown"]


PROGRESS = b"".join(b"step=%d loss=0.5\n" % n for n in range(1, 50))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (b"No space left on device\n" + PROGRESS, "healthy"),
        (PROGRESS + b"No space left on device\n", "disk_full"),
        (PROGRESS + b"No space left on device\nstep=49 loss=0.5\n", "disk_full"),  # the same step again is no news
        (PROGRESS + b"No space left on device\nstep=50 loss=0.4\n", "healthy"),
        (PROGRESS + b"step=50 loss: nan\nstep=51 loss: nan\nstep=52 loss: nan\n", "nan_loss"),
        (PROGRESS + b"step=50 loss: nan\nstep=51 loss: 0.3\nstep=52 loss: 0.2\n", "healthy"),
        (b"  0%| | 0/5 [00:00<?, ?it/s]No space left on device\n  0%| | 0/5 [00:02<?, ?it/s]\n", "disk_full"),
    ],
)
def test_progress_after_a_line_withdraws_it_and_only_progress_does(text, wanted):
    assert judged([text]).failure_class == wanted


def test_line_feeds_are_counted_whatever_the_lines_are_like():
    for data in (b"", b"\n", b"x" * 5000, b"a\n" * 3000, (b"y" * 99 + b"\n") * 40 + b"tail"):
        for begin in (0, 1, 7, 600):
            assert line_ends(data, begin) == data.count(b"\n", begin)


def test_in_a_log_full_of_progress_and_alarms_only_the_last_word_counts():
    alternating = b"".join(b"step=%d loss=0.5\nNo space left on device\n" % n for n in range(1, 20_000))
    assert judged([alternating + b"step=20000 loss=0.5\n"]).failure_class == "healthy"
    judgement = judged([alternating])
    assert (judgement.failure_class, judgement.line_number) == ("disk_full", 2 * 19_999)


def test_colour_codes_of_many_kinds_are_taken_out():
    coloured = b"".join(b"\x1b[38;5;%dmword%d\x1b[0m\x1b]0;title\x07 " % (n, n) for n in range(300))
    assert clean(coloured) == b"".join(b"word%d " % n for n in range(300))


IGNORED = (
    b"Exception ignored in: <function Loader.__del__ at 0x7f00>\nTraceback (most recent call last):\n"
    b'  File "loader.py", line 9, in __del__\n    self.close()\nRuntimeError: worker is killed by signal: Killed.\n'
)


@pytest.mark.parametrize("prefix", [b"", b"(Trainer pid=8, ip=10.0.0.3) ", b"2026-01-02T03:04:05.678901Z "])
def test_an_exception_that_python_ignored_is_no_failure_and_hides_none(prefix):
    log = b"".join(prefix + line + b"\n" for line in (b"saved the model\n" + IGNORED).splitlines())
    assert judged([log]).failure_class == "healthy"
    cause = b"OSError: [Errno 28] No space left on device\n"
    assert judged([log + prefix + cause]).failure_class == "disk_full"
    own = b"".join(prefix + line + b"\n" for line in KEY_ERROR.splitlines())
    assert judged([log + own]).failure_class == "user_code_error"


def test_batches_of_one_epoch_are_progress():
    alarm = b"RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed.\n"
    bars = b"".join(b"Epoch: [1]  [%3d/782]  loss: 4.12 (4.33)\n" % batch for batch in range(10, 60, 10))
    assert judged([bars[:40] + alarm + bars]).failure_class == "healthy"
    stuck = b"Epoch: [1]  [ 50/782]  loss: 4.12 (4.33)\n" * 9
    assert judged([stuck + alarm + stuck]).failure_class == "host_oom"


def test_tries_are_no_progress():
    tries = b"".join(b"step=40 attempt %d/10\n" % number for number in range(1, 9))
    assert (
        judged([b"step=40\n" + b"OSError: [Errno 28] No space left on device\n" + tries]).failure_class == "disk_full"
    )


def test_a_prefix_with_nothing_behind_it_is_not_the_last_word():
    log = b"saved\nWaiting to connect to client mesh master (300 seconds) 10.1.1.2:5050\n"
    for blank in (b"", b"2026-01-02T03:04:05.678901Z \n", b"(Trainer pid=8, ip=10.0.0.3) \n"):
        assert judged([log + blank]).failure_class == "hang"


def test_the_last_progress_of_a_block_answers_what_came_before_it():
    steps = [b"".join(b"step=%d loss=0.5\n" % n for n in range(begin, begin + 60)) for begin in (1, 100)]
    epilogue = b"".join(NOISE % n for n in range(60))
    log = FAILURE + steps[0] + b"UNAVAILABLE: Socket closed\n" + steps[1] + epilogue
    assert judged([log]).failure_class == "healthy"
    assert judged([log + FAILURE]).failure_class == "disk_full"
