"""Is everything there that a run needs, and what mends what is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuops.tasks.asking import YES, agreeing
from tpuops.tasks.task import Answer, Invocation, task

if TYPE_CHECKING:
    from tpuops.doctor.patient import Admission
    from tpuops.doctor.treat import Agree


@task("env", "cloud", "json", "verbose", help={"fix": "mend what a program may mend, asking for each step", "yes": YES})
async def doctor(asked: Invocation, fix: bool = False, yes: bool = False) -> Answer:
    """Check everything a run needs, and mend what can be mended; without --fix it changes nothing."""
    from tpuops.doctor.checks import CHECKS
    from tpuops.doctor.document import document
    from tpuops.doctor.treat import looked, treated
    from tpuops.report.doctor import examined, steps

    admission = await _admission(asked)
    patient = admission.admit()
    diagnosis = await (treated(CHECKS, admission.admit, _agree(asked, yes=yes)) if fix else looked(CHECKS, patient))
    shown = document(diagnosis, patient)
    return Answer(shown, examined(shown), steps(shown, asked.typed, fixed=fix), exit_code=diagnosis.exit_code)


async def _admission(asked: Invocation) -> Admission:
    import sys

    from tpuops import embedded
    from tpuops.doctor.patient import Admission
    from tpuops.tasks.opening import chosen, heard

    environment = chosen(asked)
    stage = await embedded.ensure(embedded.folder()) if environment.cloud == "local" else None
    terminal = sys.stdin.isatty() and sys.stderr.isatty()
    return Admission(environment, stage, embedded.folder().parent, asked.flags, terminal, heard(asked))


def _agree(asked: Invocation, *, yes: bool) -> Agree:
    """A person's yes or no; where nobody sits there and nothing was agreed beforehand, no."""
    from tpuops.errors import Busy

    ask = agreeing(asked, yes=yes)

    async def agree(question: str) -> bool:
        try:
            await ask(question)
        except Busy:
            return False
        if yes:
            asked.say(f"{question} yes, as agreed beforehand")
        return True

    return agree
