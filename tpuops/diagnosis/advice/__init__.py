"""What to do about a cause, in words that carry this log's own numbers. Texts only: nothing here decides or retries."""

from tpuops.diagnosis.advice.fill import advice_for

__all__ = ["advice_for"]
