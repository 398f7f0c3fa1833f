------------------------------- MODULE Driver -------------------------------
(***************************************************************************)
(* One agent: send, wake, latch, cancel, maintenance; the driver run, its  *)
(* turns and steps, and the model attempt inside a step.                   *)
(* Agent-loop sections 2 to 11 (L-, CW), and 20 for the later format (VD-).*)
(*                                                                         *)
(* Tools are not in here: the batch of a step is one await point, `tools', *)
(* answered by `continue', `concluded' or `throws' (Scheduler.tla).        *)
(***************************************************************************)
EXTENDS Inbox

CONSTANTS  \* the law: where the sources disagree
  ClosingRunLatches,           \* a wake is latched once the run has decided to end (L-WAKE-10, L-WAKE-11)
  ObserverOperationsWait,      \* operations of a record's observer wait (L-LOG-3, L-SEND-9, L-CAN-6)
  VerdictIsReadATickLate,      \* one tick between the pre-step check and its reading (L-PRE-9)
  AnyDisposalBarsLatch,        \* also when another cause came first (L-DSP-6)
  DisposalDropsLatch,          \* also a latch that was set before (L-MNT-7, VD-20)
  AdmissionFollowsPreparation, \* entered messages are written after the request is prepared (VD-06)
  StreamsAreEmbedded           \* no record per chunk; frames are live events (VD-01, VD-03, VS-1)

VARIABLES
  nextStep, nextTurn,  \* the pending lists (Inbox.tla)
  phase,               \* "idle", "maintenance", "running" (L-PH-1)
  signal,              \* the first cause that aborted this activity, or "" (L-CAN-3)
  doomed,              \* a disposal has been asked for during this activity, first or not
  latch,               \* a wake to be replayed when the activity ends (L-WAKE-2, L-WAKE-3)
  closing,             \* the run has decided to end
  turn, step,          \* of the open turn, or the last one; the last opened step of it
  ends,                \* how the turn would end now; "" while an answer is owed (L-TURN-2)
  headed               \* this driver has written a request header (L-REQ-9)

coreVars == <<nextStep, nextTurn, phase, signal, doomed, latch, closing, turn, step, ends, headed>>

core ==
  [nextStep |-> nextStep, nextTurn |-> nextTurn, phase |-> phase, signal |-> signal,
   doomed |-> doomed, latch |-> latch, closing |-> closing, turn |-> turn, step |-> step,
   ends |-> ends, headed |-> headed]

Becomes(c) ==
  /\ nextStep' = c.nextStep /\ nextTurn' = c.nextTurn /\ phase' = c.phase
  /\ signal' = c.signal /\ doomed' = c.doomed /\ latch' = c.latch /\ closing' = c.closing
  /\ turn' = c.turn /\ step' = c.step /\ ends' = c.ends /\ headed' = c.headed

(* L-PH-6: the last turn of the log goes on counting; L-IN-18: what is     *)
(* restored waits for a wake.                                              *)
Idle(lastTurn) ==
  [nextStep |-> <<>>, nextTurn |-> <<>>, phase |-> "idle", signal |-> "", doomed |-> FALSE,
   latch |-> FALSE, closing |-> FALSE, turn |-> lastTurn, step |-> 0, ends |-> "", headed |-> FALSE]

-----------------------------------------------------------------------------
(* Guards.                                                                 *)

Aborted(c) == c.signal # ""

(* L-SEND-3: taken before the insertion, so that a listener which cancels  *)
(* during the insertion changes nothing.                                   *)
ComesAfterAbort(c, wakeup) == wakeup /\ c.phase # "idle" /\ Aborted(c)

(* L-WAKE-2, L-WAKE-9, L-DSP-6: a disposal bars the latch.                 *)
IsBarred(c) ==
  /\ Intact("disposal bars")
  /\ \/ c.signal = "disposed"
     \/ AnyDisposalBarsLatch /\ c.doomed

(* L-WAKE-5, L-MNT-4, L-MNT-7: whether a latched wake is replayed.         *)
LatchIsDue(c) ==
  /\ Intact("latch is due")
  /\ c.latch
  /\ DisposalDropsLatch => ~IsBarred(c)

-----------------------------------------------------------------------------
(* Delivery: L-SEND-1 to L-SEND-5.                                         *)

(* L-SEND-4: after an abort a waking message becomes a queued prompt.      *)
Send(c, message, target, wakeup) ==
  LET after == ComesAfterAbort(c, wakeup)
      to    == IF after /\ Intact("retarget") THEN "next-turn" ELSE target
      list  == Pending(c, to)
      then  == IF wakeup THEN <<"wake", after>> ELSE <<"return", Nothing>>
  IN IF ~StaysUnique(c, to, Append(list, message)) THEN Raises(c, "duplicate")
     ELSE Mutate(c, to, Len(list), 0, <<message>>, "", then, <<"raise", "refused">>)

(* L-WAKE-1 to L-WAKE-3; with ClosingRunLatches also L-WAKE-10, L-WAKE-11. *)
Wake(c, after) ==
  LET latches == /\ Intact("latch")
                 /\ ~IsBarred(c)
                 /\ \/ c.phase = "maintenance"
                    \/ after
                    \/ ClosingRunLatches /\ c.closing
  IN IF c.phase = "idle" THEN Goes(c, <<"start run">>)
     ELSE Returns([c EXCEPT !.latch = @ \/ latches], Nothing)

-----------------------------------------------------------------------------
(* Cancel: L-CAN-1.                                                        *)

(* Without `keep' the lists are cleared first; a refused record leaves     *)
(* before the abort (LR-209).                                              *)
Cancel(c, cause, keep) ==
  IF keep THEN Goes(c, <<"abort", cause>>)
  ELSE Clear(c, <<"unlatch", cause>>)

(* L-WAKE-4, L-CAN-5: the latch goes after the lists and before the abort. *)
Unlatch(c, cause) ==
  Goes([c EXCEPT !.latch = @ /\ ~Intact("clear drops latch")], <<"abort", cause>>)

(* L-CAN-2, L-CAN-3: no activity, no abort; the first cause wins.          *)
Abort(c, cause) ==
  LET known == [c EXCEPT !.doomed = @ \/ cause = "disposed"]
      first == IF Intact("first cause") THEN c.signal ELSE cause
  IN IF c.phase = "idle" THEN Returns(c, Nothing)
     ELSE IF Aborted(c) THEN Returns([known EXCEPT !.signal = first], Nothing)
     ELSE Notifies([known EXCEPT !.signal = cause], <<"abort", cause>>, <<"return", Nothing>>)

-----------------------------------------------------------------------------
(* Maintenance: L-MNT-1 to L-MNT-4.                                        *)

Active(c, kind) ==
  [c EXCEPT !.phase = kind, !.signal = "", !.doomed = FALSE, !.latch = FALSE, !.closing = FALSE,
            !.step = 0, !.ends = ""]

Maintain(c) ==
  IF c.phase # "idle" THEN Raises(c, "busy")
  ELSE Notes(Active(c, "maintenance"), <<"signal">>, <<"begin job">>)

BeginJob(c) == Notifies(c, <<"job">>, <<"job called">>)
JobCalled(c) == Parks(c, <<"maintenance">>, <<"job settled">>)

(* The phase returns to idle, and then the latch is honoured.              *)
JobSettled(c) ==
  Goes(Active(c, IF Intact("job ends") THEN "idle" ELSE c.phase), <<"replay", LatchIsDue(c)>>)

-----------------------------------------------------------------------------
(* The driver run: L-DRV-1, L-PH-3, L-IDLE-3.                              *)

StartRun(c) == Notes(Active(c, "running"), <<"signal">>, <<"run started">>)
RunStarted(c) == Notifies(c, <<"agent/status", "running">>, <<"open turn">>)

(* L-IDLE-3: idle, then possibly a replay, then the activity settles.      *)
Retire(c) ==
  Notifies(Active(c, "idle"), <<"agent/status", "idle">>, <<"replay", LatchIsDue(c)>>)

(* L-WAKE-5, L-WAKE-6: only when anything at all is pending.               *)
(* L-WAKE-13, L-WAKE-14: a listener of idle may have started something.    *)
Replay(c, due) ==
  LET waking == due /\ (HasPending(c) \/ ~Intact("nothing to replay"))
  IN IF waking /\ c.phase = "idle" THEN Goes(c, <<"start run">>)
     ELSE Leaves([c EXCEPT !.latch = @ \/ (waking /\ c.phase = "maintenance" /\ ~IsBarred(c))], <<"settled">>)

-----------------------------------------------------------------------------
(* A turn: L-TURN-1 to L-TURN-5.                                           *)

Closing(c) == [c EXCEPT !.closing = TRUE]
Gap(c, then) == Parks(c, <<"gap">>, then)

(* L-TURN-1, CW1: an abort before the opening leaves no record at all.     *)
OpenTurn(c) ==
  IF Aborted(c) /\ Intact("check before turn") THEN Gap(Closing(c), <<"retire">>)
  ELSE Appends(c, c, <<"turn/start", c.turn + 1>>,
               <<"turn opened">>, <<"turn refused">>)

TurnRefused(c) ==
  Notifies(Closing(c), <<"agent/error", c.turn, c.step>>, <<"leave run">>)

LeaveRun(c) == Gap(Closing(c), <<"retire">>)

(* CW2: the check before the claim.                                        *)
TurnOpened(c) ==
  LET opened == [c EXCEPT !.turn = @ + 1]
      target == IF Intact("prompt claimed") THEN "next-turn" ELSE "next-step"
  IN IF Aborted(c) THEN Goes(opened, <<"fail">>) ELSE Goes(opened, <<"propose", target>>)

-----------------------------------------------------------------------------
(* The proposal: claim, assembly, pre-step (section 8).                    *)

Propose(c, target) == Claim(c, target, <<"assemble">>, <<"fail">>)

(* CW3: assembly is called even with an aborted signal.                    *)
Assemble(c, batch) == Parks(c, <<"assembly">>, <<"assembled", batch>>)

(* L-PRE-1, L-PRE-7, CW4.                                                  *)
Assembled(c, batch, answer) ==
  IF answer[1] = "throws" \/ Aborted(c) THEN Goes(c, <<"fail">>)
  ELSE Parks(c, <<"pre-step", batch>>, <<"judged">>)

(* L-PRE-6, L-PRE-8, CW5: the abort wins over the decision.                *)
Judged(c, answer) ==
  IF answer[1] = "throws" \/ (Aborted(c) /\ Intact("abort beats verdict")) THEN Goes(c, <<"fail">>)
  ELSE IF VerdictIsReadATickLate THEN Parks(c, <<"tick">>, <<"verdict read", answer>>)
  ELSE Goes(c, <<"decide", answer>>)

(* L-TURN-2, L-TURN-7 to L-TURN-9, L-PRE-9.                                *)
Decide(c, verdict) ==
  LET batch == verdict[2]
  IN CASE verdict[1] = "reject" -> Goes(Closing([c EXCEPT !.ends = "blocked"]), <<"end turn">>)
       [] OTHER ->
            IF batch = <<>> /\ c.ends # "" THEN Goes(c, <<"end turn">>)
            ELSE IF batch = <<>> /\ c.step = 0
            THEN Goes(Closing([c EXCEPT !.ends = "completed"]), <<"end turn">>)
            ELSE IF Aborted(c) THEN Goes(c, <<"fail">>)
            ELSE Appends(c, c, <<"step/start", c.turn, c.step + 1>>,
                         <<"step opened", batch>>, <<"fail">>)

-----------------------------------------------------------------------------
(* A step and its attempts: sections 9 to 11.                              *)

(* VD-06: the entered messages come now, or after the preparation.         *)
StepOpened(c, batch) ==
  LET opened == [c EXCEPT !.step = @ + 1]
  IN IF AdmissionFollowsPreparation THEN Goes(opened, <<"attempt", batch>>)
     ELSE Goes(opened, <<"admit", batch, <<"attempt", <<>>>>>>)

(* L-PRE-4, CW6: in order, and without a check between them.               *)
Admit(c, batch, then) ==
  IF batch = <<>> THEN Goes(c, then)
  ELSE Appends(c, c, <<"user/message", Head(batch)>>, <<"admit", Tail(batch), then>>, <<"fail step">>)

(* L-REQ-1: the step begins with a check.                                  *)
Attempt(c, batch) ==
  IF Aborted(c) THEN Goes(c, <<"fail step">>)
  ELSE Parks(c, <<"request">>, <<"requested", batch>>)

(* CW7.                                                                    *)
Requested(c, batch, answer) ==
  IF answer[1] = "throws" \/ Aborted(c) THEN Goes(c, <<"fail step">>)
  ELSE Parks(c, <<"prepare">>, <<"prepared", batch>>)

(* The answer tells whether the header and the context differ from the     *)
(* latest ones, and how many system messages are due (VD-08).              *)
Prepared(c, batch, answer) ==
  IF answer[1] = "throws" \/ Aborted(c) THEN Goes(c, <<"fail step">>)
  ELSE Goes(c, <<"system", answer[4], batch, answer[2], answer[3]>>)

System(c, count, batch, changed, context) ==
  IF count = 0 THEN Goes(c, <<"admit", batch, <<"head", changed, context>>>>)
  ELSE Appends(c, c, <<"system/message">>, <<"system", count - 1, batch, changed, context>>, <<"fail step">>)

(* L-REQ-9, L-REQ-12: the first header always, later ones when different.  *)
HeadRequest(c, changed, context) ==
  IF c.headed /\ ~changed THEN Goes(c, <<"contextualise", context>>)
  ELSE Appends(c, c, <<"request/header", c.headed>>, <<"headed", context>>, <<"fail step">>)

Headed(c, context) == Goes([c EXCEPT !.headed = TRUE], <<"contextualise", context>>)

(* L-REQ-11, CW8: no check between header and context.                     *)
Contextualise(c, context) ==
  IF ~context THEN Goes(c, <<"dispatch">>)
  ELSE Appends(c, c, <<"request/context">>, <<"dispatch">>, <<"fail step">>)

(* LI-11: no request once a check saw the abort.  VS-5: the stream starts. *)
Dispatch(c) ==
  IF Aborted(c) /\ Intact("check before request") THEN Goes(c, <<"fail step">>)
  ELSE IF StreamsAreEmbedded
  THEN Notifies(c, <<"agent/assistant-stream", "start">>, <<"pull", FALSE>>)
  ELSE Goes(c, <<"pull", FALSE>>)

Pull(c, started) == Parks(c, <<"chunk", started>>, <<"pulled", started>>)

(* L-STR-1 to L-STR-3, L-STR-10, L-STR-11.                                 *)
Pulled(c, started, answer) ==
  CASE answer[1] = "chunk" ->
         IF Aborted(c) THEN Parks(c, <<"close", started>>, <<"closed">>)
         ELSE IF StreamsAreEmbedded
         THEN Notifies(c, <<"agent/assistant-stream", "chunk">>, <<"pull", TRUE>>)
         ELSE Appends(c, c, <<"assistant/chunk">>, <<"pull", TRUE>>, <<"chunk refused", started>>)
    [] answer[1] = "throws" ->
         IF Aborted(c) THEN Goes(c, <<"interrupt", answer[2]>>) ELSE Goes(c, <<"give up">>)
    [] OTHER ->
         IF Aborted(c) THEN Goes(c, <<"interrupt", answer[4]>>)
         ELSE IF answer[2] = "failure" THEN Goes(c, <<"fail attempt">>)
         ELSE Goes(c, <<"settle", answer[2], answer[3]>>)

Closed(c, answer) == Goes(c, <<"interrupt", answer[2]>>)

(* L-STR-10: the iterator of a broken stream is closed, too.               *)
ChunkRefused(c, started) == Parks(c, <<"close", started>>, <<"closed broken">>)
ClosedBroken(c, answer) ==
  IF Aborted(c) THEN Goes(c, <<"interrupt", answer[2]>>) ELSE Goes(c, <<"give up">>)

(* VS-5: the stream ends after its settlement record, or its refusal.      *)
StreamEnds(c, then) ==
  IF StreamsAreEmbedded THEN Notifies(c, <<"agent/assistant-stream", "end">>, then) ELSE Goes(c, then)

(* VD-03: an attempt without an anchor is a record of its own.             *)
Unanchored(c, then) ==
  IF StreamsAreEmbedded
  THEN Appends(c, c, <<"assistant/attempt">>, <<"stream ends", then>>, <<"stream ends", <<"fail step">>>>)
  ELSE Goes(c, then)

(* L-STR-4 to L-STR-7: one anchor; a truncated answer runs no tools.       *)
Settle(c, finish, calls) ==
  LET result == IF finish = "max-tokens" THEN <<"close step", "max-tokens">>
                ELSE IF calls THEN <<"run tools">>
                ELSE <<"close step", "completed">>
  IN Appends(c, c, <<"assistant/message", "settled">>, <<"stream ends", result>>,
             <<"stream ends", <<"fail step">>>>)

(* L-STR-9, CW9 to CW11.                                                   *)
Interrupt(c, visible) ==
  IF visible
  THEN Appends(c, c, <<"assistant/message", "interrupted">>, <<"stream ends", <<"fail step">>>>,
               <<"stream ends", <<"fail step">>>>)
  ELSE Unanchored(c, <<"fail step">>)

GiveUp(c) == Unanchored(c, <<"fail step">>)
FailAttempt(c) == Unanchored(c, <<"recover">>)

(* L-ERR-1 to L-ERR-4, CW15: inside the open step.                         *)
Recover(c) == Parks(c, <<"recovery">>, <<"recovered">>)
Recovered(c, answer) ==
  IF answer[1] = "retry" /\ ~Aborted(c) THEN Goes(c, <<"attempt", <<>>>>)
  ELSE Goes(c, <<"fail step">>)

(* L-TOOL-12, L-TOOL-13: concluded, or a follow-up request is owed.        *)
RunTools(c) == Parks(c, <<"tools">>, <<"tools done">>)
ToolsDone(c, answer) ==
  CASE answer[1] = "throws"    -> Goes(c, <<"fail step">>)
    [] answer[1] = "concluded" -> Goes(c, <<"close step", "completed">>)
    [] OTHER                   -> Goes(c, <<"close step", "">>)

-----------------------------------------------------------------------------
(* The end of a step and of a turn.                                        *)

(* L-TURN-2, L-TURN-6: every opened step is closed.                        *)
StepEnd(c, then) ==
  Appends(c, c, <<"step/end", c.turn, c.step>>, then, <<"fail">>)

CloseStep(c, result) == StepEnd(c, <<"step closed", result>>)
FailStep(c) == StepEnd(c, <<"step failed">>)
StepFailed(c) == Goes(c, <<"fail">>)

(* L-TURN-10, CW16: max-tokens is sticky.                                  *)
StepClosed(c, result) ==
  LET known == [c EXCEPT !.ends = IF @ = "max-tokens" /\ Intact("sticky max-tokens") THEN @ ELSE result]
  IN IF Aborted(c) THEN Goes(known, <<"fail">>) ELSE Goes(known, <<"stop or go on">>)

(* L-TURN-12: the turn would end, and nothing waits for its next step.     *)
WouldEnd(c) == c.ends # "" /\ c.nextStep = <<>>

StopOrGoOn(c) ==
  IF WouldEnd(c) THEN Parks(c, <<"turn-stopping">>, <<"stopping done">>)
  ELSE Goes(c, <<"propose", "next-step">>)

(* L-TURN-13, CW17.                                                        *)
StoppingDone(c, answer) ==
  IF answer[1] = "throws" \/ Aborted(c) THEN Goes(c, <<"fail">>)
  ELSE IF WouldEnd(c) THEN Goes(c, <<"end turn">>)
  ELSE Goes(c, <<"propose", "next-step">>)

(* L-TURN-3, L-TURN-5, L-CAN-10: the signal is read here, after the        *)
(* step/end of a failing step.                                             *)
Fail(c) ==
  IF Aborted(c) THEN Goes(Closing([c EXCEPT !.ends = "aborted"]), <<"end turn">>)
  ELSE Notifies(Closing([c EXCEPT !.ends = "error"]), <<"agent/error", c.turn, c.step>>, <<"end turn">>)

(* L-TURN-4: exactly one turn/end; L-CAN-9: with the first cause.          *)
EndTurn(c) ==
  LET reason == IF c.ends = "aborted" THEN <<"aborted", c.signal>> ELSE <<c.ends>>
  IN Appends(c, c, <<"turn/end", c.turn>> \o reason, <<"turn ended">>, <<"turn end refused">>)

TurnEndRefused(c) ==
  Notifies(Closing(c), <<"agent/error", c.turn, c.step>>, <<"leave run">>)

(* L-TURN-7, L-TURN-14 to L-TURN-16: after an ordinary end whatever is     *)
(* pending feeds another turn of the same run, under a new signal.         *)
TurnEnded(c) ==
  IF c.closing THEN Goes(c, <<"leave run">>)
  ELSE IF HasPending(c)
  THEN Notes([c EXCEPT !.signal = "", !.doomed = FALSE, !.latch = FALSE, !.step = 0, !.ends = ""],
             <<"signal">>, <<"hand over">>)
  ELSE Goes(c, <<"leave run">>)

(* AW11: the hand-over takes a tick.  CW19.                                *)
HandOver(c) == Gap(c, <<"gap over">>)

-----------------------------------------------------------------------------
(* The rules by frame.  The answer of an await point comes last.           *)

DriverRule(c, f) ==
  CASE f[1] = "send"             -> Send(c, f[2], f[3], f[4])
    [] f[1] = "wake"             -> Wake(c, f[2])
    [] f[1] = "splice"           -> Splice(c, f[2], f[3], f[4], FALSE, f[5])
    [] f[1] = "cancel"           -> Cancel(c, f[2], f[3])
    [] f[1] = "unlatch"          -> Unlatch(c, f[2])
    [] f[1] = "abort"            -> Abort(c, f[2])
    [] f[1] = "maintain"         -> Maintain(c)
    [] f[1] = "begin job"        -> BeginJob(c)
    [] f[1] = "job called"       -> JobCalled(c)
    [] f[1] = "job settled"      -> JobSettled(c)
    [] f[1] = "start run"        -> StartRun(c)
    [] f[1] = "run started"      -> RunStarted(c)
    [] f[1] = "retire"           -> Retire(c)
    [] f[1] = "replay"           -> Replay(c, f[2])
    [] f[1] = "open turn"        -> OpenTurn(c)
    [] f[1] = "gap over"         -> OpenTurn(c)
    [] f[1] = "turn refused"     -> TurnRefused(c)
    [] f[1] = "leave run"        -> LeaveRun(c)
    [] f[1] = "turn opened"      -> TurnOpened(c)
    [] f[1] = "propose"          -> Propose(c, f[2])
    [] f[1] = "assemble"         -> Assemble(c, f[2])
    [] f[1] = "assembled"        -> Assembled(c, f[2], f[3])
    [] f[1] = "judged"           -> Judged(c, f[2])
    [] f[1] = "verdict read"     -> Decide(c, f[2])
    [] f[1] = "decide"           -> Decide(c, f[2])
    [] f[1] = "step opened"      -> StepOpened(c, f[2])
    [] f[1] = "admit"            -> Admit(c, f[2], f[3])
    [] f[1] = "attempt"          -> Attempt(c, f[2])
    [] f[1] = "requested"        -> Requested(c, f[2], f[3])
    [] f[1] = "prepared"         -> Prepared(c, f[2], f[3])
    [] f[1] = "system"           -> System(c, f[2], f[3], f[4], f[5])
    [] f[1] = "head"             -> HeadRequest(c, f[2], f[3])
    [] f[1] = "headed"           -> Headed(c, f[2])
    [] f[1] = "contextualise"    -> Contextualise(c, f[2])
    [] f[1] = "dispatch"         -> Dispatch(c)
    [] f[1] = "pull"             -> Pull(c, f[2])
    [] f[1] = "pulled"           -> Pulled(c, f[2], f[3])
    [] f[1] = "closed"           -> Closed(c, f[2])
    [] f[1] = "chunk refused"    -> ChunkRefused(c, f[2])
    [] f[1] = "closed broken"    -> ClosedBroken(c, f[2])
    [] f[1] = "stream ends"      -> StreamEnds(c, f[2])
    [] f[1] = "settle"           -> Settle(c, f[2], f[3])
    [] f[1] = "interrupt"        -> Interrupt(c, f[2])
    [] f[1] = "give up"          -> GiveUp(c)
    [] f[1] = "fail attempt"     -> FailAttempt(c)
    [] f[1] = "recover"          -> Recover(c)
    [] f[1] = "recovered"        -> Recovered(c, f[2])
    [] f[1] = "run tools"        -> RunTools(c)
    [] f[1] = "tools done"       -> ToolsDone(c, f[2])
    [] f[1] = "close step"       -> CloseStep(c, f[2])
    [] f[1] = "fail step"        -> FailStep(c)
    [] f[1] = "step failed"      -> StepFailed(c)
    [] f[1] = "step closed"      -> StepClosed(c, f[2])
    [] f[1] = "stop or go on"    -> StopOrGoOn(c)
    [] f[1] = "stopping done"    -> StoppingDone(c, f[2])
    [] f[1] = "fail"             -> Fail(c)
    [] f[1] = "end turn"         -> EndTurn(c)
    [] f[1] = "turn end refused" -> TurnEndRefused(c)
    [] f[1] = "turn ended"       -> TurnEnded(c)
    [] f[1] = "hand over"        -> HandOver(c)
    [] OTHER                     -> InboxRule(c, f, c.turn)

RECURSIVE Spoken(_, _)
Spoken(c, f) ==
  LET o == DriverRule(c, f) IN IF o.verb = "go" THEN Spoken(o.core, o.frame) ELSE o

(* Behind these records the state has not caught up yet: nothing that      *)
(* waited begins there.                                                    *)
CatchesUp == Unsettled \cup {"turn ended"}

(* What answers nothing may wait; an edit answers, so it cannot.           *)
MayWait(operation) == ObserverOperationsWait /\ operation[1] \in {"send", "cancel", "maintain"}

Begin == MayBegin(CatchesUp) /\ BeginWaiting /\ UNCHANGED coreVars

(* Turns are budgeted, although the machine opens them.                    *)
Toll(o) == IF o.effect[1] = "turn/start" /\ o.verb = "append" THEN <<"turns">> ELSE Free

Step ==
  /\ Runs /\ ~MayBegin(CatchesUp)
  /\ \E o \in {Spoken(core, Top.frame)} : Perform(o, Toll(o), Becomes)
=============================================================================
