------------------------------ MODULE MCDriver ------------------------------
(***************************************************************************)
(* The driver within a bound: who may send, cancel, edit and answer, how   *)
(* often, and at what price.  Usual answers are free.                      *)
(***************************************************************************)
EXTENDS Driver

CONSTANTS  \* budgets
  Messages, SilentPrompts, CancelUser, CancelDisposed, Jobs, Turns, Calls, Faults, Refusals, Edits

view == <<coreVars, control>>
vars == <<view, label>>

NextMessage == Messages - left.messages + 1
AnyPending == Range(nextTurn) \cup Range(nextStep)
IsVain == phase = "idle" /\ AnyPending = {}

-----------------------------------------------------------------------------
(* Operations.                                                             *)

Operation(place, operation, price) == CallFrom(place, operation, price, MayWait(operation))

(* L-SEND-1: followup, steer, inject, and the cell without a preset.       *)
SendMessage(place, target, wakeup) ==
  Operation(place, <<"send", NextMessage, target, wakeup>>,
            IF ~wakeup /\ target = "next-turn" THEN <<"messages", "silentPrompts">> ELSE <<"messages">>)

CancelAll(place, cause, keep) ==
  Operation(place, <<"cancel", cause, keep>>,
            IF IsVain THEN Free
            ELSE IF cause = "user" THEN <<"cancelUser">> ELSE <<"cancelDisposed">>)

RunMaintenance(place) == Operation(place, <<"maintain">>, IF phase = "idle" THEN <<"jobs">> ELSE Free)

Edit(place, operation) == Operation(place, operation, <<"edits">>)
EditWithMessage(place, operation) == Operation(place, operation, <<"edits", "messages">>)

Edited(place) ==
  \/ \E message \in AnyPending :
       \/ Edit(place, <<"send", message, "next-turn", TRUE>>)
       \/ Edit(place, <<"remove", message>>)
       \/ EditWithMessage(place, <<"replace", message, NextMessage>>)
  \/ Edit(place, <<"remove", NextMessage>>)
  \/ Edit(place, <<"replace", NextMessage, NextMessage + 1>>)
  \/ AnyPending # {} /\ Edit(place, <<"clear_inbox">>)
  \/ EditWithMessage(place, <<"splice", "next-turn", 0, 0, <<NextMessage>>>>)
  \/ EditWithMessage(place, <<"splice", "next-step", -1, 1, <<NextMessage>>>>)

OperationsFrom(place) ==
  \/ /\ left.messages > 0
     /\ \E target \in {"next-step", "next-turn"}, wakeup \in BOOLEAN : SendMessage(place, target, wakeup)
  \/ \E cause \in {"user", "disposed"}, keep \in BOOLEAN : CancelAll(place, cause, keep)
  \/ RunMaintenance(place)
  \/ left.edits > 0 /\ Edited(place)

Operations == OperationsFrom(Here)

-----------------------------------------------------------------------------
(* Answers.                                                                *)

Usual(i, answer) == Answer(i, answer, Free)
Fault(i, answer) == Answer(i, answer, <<"faults">>)

AnswerPreStep(i, batch) ==
  \/ Usual(i, <<"enter", batch>>)
  \/ batch # <<>> /\ Fault(i, <<"enter", <<>>>>)
  \/ Fault(i, <<"reject">>)
  \/ Fault(i, <<"throws">>)

SystemMessages == IF StreamsAreEmbedded THEN 1 ELSE 0

AnswerPrepare(i) ==
  \/ Usual(i, <<"prepared", FALSE, ~headed, IF headed THEN 0 ELSE SystemMessages>>)
  \/ headed /\ Fault(i, <<"prepared", TRUE, TRUE, SystemMessages>>)
  \/ Fault(i, <<"throws">>)

AnswerChunk(i, started) ==
  \/ /\ ~started
     /\ \/ Usual(i, <<"chunk">>)
        \/ Fault(i, <<"end", "stop", FALSE, FALSE>>)
        \/ signal # "" /\ Usual(i, <<"throws", FALSE>>)
  \/ /\ started
     /\ \/ Usual(i, <<"end", "stop", FALSE, TRUE>>)
        \/ Answer(i, <<"end", "tool-calls", TRUE, TRUE>>, <<"calls">>)
        \/ signal # "" /\ (Usual(i, <<"chunk">>) \/ Fault(i, <<"throws", FALSE>>))
  \/ Fault(i, <<"end", "max-tokens", TRUE, started>>)
  \/ Fault(i, <<"end", "failure", FALSE, started>>)
  \/ Fault(i, <<"throws", started>>)

AnswerClose(i, started) ==
  \/ Usual(i, <<"closed", started>>)
  \/ started /\ Fault(i, <<"closed", FALSE>>)

AnswerTools(i) ==
  Usual(i, <<"continue">>) \/ Usual(i, <<"concluded">>) \/ Fault(i, <<"throws">>)

AnswerRecovery(i) ==
  Usual(i, <<"none">>) \/ Usual(i, <<"retry">>) \/ Fault(i, <<"throws">>)

AnswerPlain(i) == Usual(i, <<"done">>) \/ Fault(i, <<"throws">>)

AnswerAt(i) ==
  LET point == parked[i].point
  IN CASE point[1] = "pre-step" -> AnswerPreStep(i, point[2])
       [] point[1] = "prepare"  -> AnswerPrepare(i)
       [] point[1] = "chunk"    -> AnswerChunk(i, point[2])
       [] point[1] = "close"    -> AnswerClose(i, point[2])
       [] point[1] = "tools"    -> AnswerTools(i)
       [] point[1] = "recovery" -> AnswerRecovery(i)
       [] point[1] \in {"tick", "gap", "maintenance"} -> Usual(i, <<"done">>)
       [] OTHER                 -> AnswerPlain(i)

Answers == \E i \in 1..Len(parked) : AnswerAt(i)

-----------------------------------------------------------------------------
Next ==
  \/ Step
  \/ Begin
  \/ Operations /\ UNCHANGED coreVars
  \/ Answers /\ UNCHANGED coreVars

Init ==
  /\ Start([messages |-> Messages, silentPrompts |-> SilentPrompts, cancelUser |-> CancelUser,
            cancelDisposed |-> CancelDisposed, jobs |-> Jobs, turns |-> Turns, calls |-> Calls,
            faults |-> Faults, refusals |-> Refusals, edits |-> Edits])
  /\ nextStep = <<>> /\ nextTurn = <<>> /\ phase = "idle" /\ signal = "" /\ doomed = FALSE
  /\ latch = FALSE /\ closing = FALSE /\ turn = 0 /\ step = 0 /\ ends = "" /\ headed = FALSE

Spec == Init /\ [][Next]_vars
=============================================================================
