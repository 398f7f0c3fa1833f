"""One file for each machine that is stated twice."""

from __future__ import annotations

from loopconform.tla.machines.creation import SUBJECT as CREATION
from loopconform.tla.machines.driver import SUBJECT as DRIVER
from loopconform.tla.machines.inbox import SUBJECT as INBOX
from loopconform.tla.machines.loop import SUBJECT as LOOP
from loopconform.tla.machines.request import SUBJECT as REQUEST
from loopconform.tla.machines.retry import SUBJECT as RETRY
from loopconform.tla.machines.scheduler import SUBJECT as SCHEDULER
from loopconform.tla.machines.tape import SUBJECT as TAPE
from loopconform.tla.subjects import Subject

SUBJECTS: dict[str, Subject] = {
    one.name: one for one in (INBOX, DRIVER, SCHEDULER, LOOP, CREATION, TAPE, RETRY, REQUEST)
}
