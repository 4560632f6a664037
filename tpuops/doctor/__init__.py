"""Every check of what a run needs, and what mends it. Looks first, mends only when asked, and then looks again.

A check never changes anything, never prints, and shows no secret. A fix does one thing that a person agreed to.

How to add checks
-----------------
1. A family of checks is a file of its own in this room. A check is an async function `(Patient) -> Finding`:

       async def clock(patient: Patient) -> Finding:
           seen = await patient.cloud.project_number(patient.environment.project)
           return ok(f"the project is {seen}")

       CHECKS = (Check("clock", clock, needs=("credentials",), timeout_s=10),)

   The answers are made with `ok(what)`, `warning(kind, what, ...)`, `broken(kind, what, ...)` and `skipped(what)` of
   `finding.py`. `kind` is the class that scripts read, e.g. `quota-exceeded`; `what` one line in the user's words;
   `evidence` what was seen; `hint` the next command; `exit_code` as DESIGN.md 5 has them (3 where nothing is said).
2. Let errors of the floors below fly: a `TpuopsError` becomes a broken finding with its own words, class and exit
   code. Catch one only to say it better. Anything else that is raised is a bug, and shows as one.
3. `needs` names the checks without which this one means nothing. All checks start at once, so that a healthy setup
   waits for its slowest check alone; where a need turns out broken, this one's finding is replaced by `skipped`. Thus a
   look must be harmless whatever its needs say. What several checks want to know is asked once:
   `await patient.shared.once("identity", lambda: ...)`.
4. A check that outlives its `timeout_s` is cut off, and named as `hung`. Nothing may block the event loop: calls go
   through `patient.cloud` or `tpuops.cloud.threads.in_thread`, processes through `tpuops.remote.local`.
5. `applies=lambda patient: patient.environment.vm is not None` leaves a check out where it has nothing to look at.
6. What can be mended carries `fix=Fix(what, run, command)`: `what` completes "shall I ...?", `run` does it, `command`
   is how a person does it by hand (printed where nobody agreed). `needs_person=True` where `run` takes the terminal (a
   login). After the fixes everything is looked at once more, and that second look alone decides the exit code.
7. Add the family to `CHECKS` in `checks.py`, in the order in which a reader should hear of it: of several broken checks
   the first decides the exit code.

Tests: `tests/doctor/conftest.py` has the fixture `clinic`, whose `doctor(...)` types `tpuops doctor --json` as a user's
process on an embedded cloud and returns its document; `tests/doctor/test_credentials.py` shows its use.
"""
