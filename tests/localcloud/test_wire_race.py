"""Twelve writers want one object, each only if it is not there yet: one gets it, every time, also across a kill."""

import concurrent.futures
import random
import threading
import time
import urllib.error

import pytest

pytestmark = pytest.mark.wire
WRITERS, ROUNDS, KILLS = 12, 12, 6
PATIENCE_S = 30.0


@pytest.fixture
def race(bare_cloud):
    """Has twelve writers call `write(name, number)` at once; gives their answers."""
    bare_cloud.ask("POST", "/storage/v1/b?project=local-tests", {"name": "bkt"})

    def run(write, name):
        together = threading.Barrier(WRITERS)

        def one(number):
            together.wait()
            return write(name, number)

        with concurrent.futures.ThreadPoolExecutor(WRITERS) as writers:
            return list(writers.map(one, range(WRITERS)))

    return run


def wants(cloud, name, number):
    """Whether the object is now this writer's, by the cloud's first answer."""
    try:
        cloud.ask("POST", f"/upload/storage/v1/b/bkt/o?uploadType=media&name={name}&ifGenerationMatch=0", number)
    except urllib.error.HTTPError as refused:
        assert refused.code == 412, refused
        return False
    return True


def test_one_of_twelve_wins_each_time(bare_cloud, race):
    for number in range(ROUNDS):
        name = f"lock-{number}"
        won = race(lambda name, writer: wants(bare_cloud, name, writer), name)
        assert won.count(True) == 1, won
        assert bare_cloud.ask("GET", f"/storage/v1/b/bkt/o/{name}?alt=media") == won.index(True)


def test_one_of_twelve_wins_also_where_the_cloud_is_killed_under_their_hands(bare_cloud, race):
    def insists(name, writer):
        """As a client that heard nothing: it asks again, and where it is refused it looks whose the object is."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            try:
                return wants(bare_cloud, name, writer) or (
                    bare_cloud.ask("GET", f"/storage/v1/b/bkt/o/{name}?alt=media") == writer
                )
            except OSError as lost:
                assert not isinstance(lost, urllib.error.HTTPError), lost
                time.sleep(0.02)
        raise AssertionError("no answer")

    chance = random.Random(2)
    for number in range(KILLS):
        name = f"lock-{number}"
        with concurrent.futures.ThreadPoolExecutor(1) as aside:
            racing = aside.submit(race, insists, name)
            time.sleep(chance.uniform(0.0, 0.03))
            bare_cloud.kill()
            bare_cloud.start()
            won = racing.result(PATIENCE_S)
        assert won.count(True) == 1, won
        bare_cloud.kill()
        bare_cloud.start()
        assert bare_cloud.ask("GET", f"/storage/v1/b/bkt/o/{name}?alt=media") == won.index(True)
        assert race(lambda name, writer: wants(bare_cloud, name, writer), name).count(True) == 0
