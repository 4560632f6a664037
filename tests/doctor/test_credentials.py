"""Logins of every kind in a private home, broken one by one; doctor as a user's process."""

from __future__ import annotations

from .conftest import Clinic


def test_a_healthy_setup(clinic: Clinic) -> None:
    assert clinic.doctor().document["healthy"]
