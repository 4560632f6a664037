"""Ways in which the same failure looks different in another log: other values, other wrappers, other noise.

Each takes the text and the decisive line of a labelled excerpt and returns bytes. What a message says is kept; what
varies from run to run is not: times, hosts, paths, pids, addresses, sizes, line ends, prefixes, colours, wrapping.
"""

import re
import textwrap

_CLOCK = re.compile(r"\b\d\d:\d\d:\d\d\b")
_DATE = re.compile(r"\b20\d\d-\d\d-\d\d\b")
_LONG_NUMBER = re.compile(r"(?<![\w.#-])\d{5,}(?![\w.])")
_HEX = re.compile(r"\b0x[0-9a-f]{4,}\b")
_ADDRESS = re.compile(r"\b(?:10|203)\.\d{1,3}\.\d{1,3}\.\d{1,3}\b")
_SIZE = re.compile(r"\b\d+\.\d\d([GM])\b")
_LINE_OF = re.compile(r"(?<=\.py\", line )\d+|(?<=\.py:)\d+|(?<=\.cc:)\d+")
_FOLDER = re.compile(r"/(?:opt/venv|home/user|data|usr/local|mnt/\w+)/")


def other_times(text, line):
    text = _CLOCK.sub(lambda found: f"{(int(found.group()[:2]) + 7) % 24:02d}{found.group()[2:]}", text)
    return _DATE.sub("2031-11-09", text).encode()


def other_numbers(text, line):
    text = _LONG_NUMBER.sub(lambda found: str(int(found.group()) % 90001 + 10007), text)
    text = _SIZE.sub(lambda found: f"{int(float(found.group()[:-1]) * 3) % 90 + 1}.07{found.group(1)}", text)
    return _LINE_OF.sub(lambda found: str(int(found.group()) + 13), _HEX.sub("0x7ffe01c0de", text)).encode()


def other_hosts_and_paths(text, line):
    text = _ADDRESS.sub("172.16.9.44", text)
    text = text.replace("us-central1", "asia-northeast3").replace("us-east5", "europe-west9")
    return _FOLDER.sub("/srv/jobs/night ly/".replace(" ", "-"), text).encode()


def stamped_prefix(text, line):
    return "".join(f"2026-01-02T03:04:05.678901Z {each}\n" for each in text.split("\n")).encode()


def journal_prefix(text, line):
    return "".join(f"Jan 02 03:04:05 t1v-n-0a1b2c3d-w-0 python3[4242]: {each}\n" for each in text.split("\n")).encode()


def worker_prefix(text, line):
    return "".join(f"[3] {each}\n" for each in text.split("\n")).encode()


def ray_prefix(text, line):
    return "".join(f"(TrainWorker pid=8124, ip=10.0.0.3) {each}\n" for each in text.split("\n")).encode()


def colours(text, line):
    return re.sub(r"([A-Za-z]{4,})", "\x1b[1;31m\\1\x1b[0m", text).encode()


def crlf(text, line):
    return text.replace("\n", "\r\n").encode()


def behind_a_bar(text, line):
    bar = "\r  0%|          | 0/500 [00:00<?, ?it/s]\r"
    return text.replace(line, bar + line, 1).encode()


def noise_before(text, line):
    noise = "".join(f"I0102 03:04:{n % 60:02d}.000001 7 loader.py:{n}] shard {n} of 4096 opened\n" for n in range(900))
    return (noise + text).encode()


def noise_after(text, line):
    noise = "".join(f"I0102 09:04:{n % 60:02d}.000001 7 saver.py:{n}] flushing buffer {n}\n" for n in range(40))
    return (text.rstrip("\n") + "\n" + noise).encode()


def bad_bytes(text, line):
    return b"\xff\xfe\x80 loading \xc3\x28\n" + text.encode() + b"\n\xf0\x28\x8c\xbc\n"


def wrapped_words(text, line):
    lines = [piece for each in text.split("\n") for piece in (textwrap.wrap(each, 100) if len(each) > 100 else [each])]
    return "\n".join(lines).encode()


def wrapped_hard(text, line):
    lines = [each[at : at + 120] for each in text.split("\n") for at in range(0, max(len(each), 1), 120)]
    return "\n".join(lines).encode()


def cut_after_decisive(text, line):
    place = text.find(line)
    return text[: place + len(line)].encode() if place >= 0 else text.encode()


VARIATIONS = (
    other_times,
    other_numbers,
    other_hosts_and_paths,
    stamped_prefix,
    journal_prefix,
    worker_prefix,
    ray_prefix,
    colours,
    crlf,
    behind_a_bar,
    noise_before,
    noise_after,
    bad_bytes,
    wrapped_words,
    wrapped_hard,
    cut_after_decisive,
)
