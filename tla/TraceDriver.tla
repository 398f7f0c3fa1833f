----------------------------- MODULE TraceDriver -----------------------------
(***************************************************************************)
(* Is a recorded log a behaviour of the driver, for some environment?      *)
(*                                                                         *)
(* `Traces', of the generated module TraceData, are logs; each one has the *)
(* pending lists and the last turn with which its driver begins, and its   *)
(* rows.  A row says which record it is (`label'), and what the            *)
(* environment must have known by then: how the open attempt finished so   *)
(* far (`finish'), which messages the next step enters (`batch'), how the  *)
(* open turn ends (`cancels', `fails', `rejects').                         *)
(*                                                                         *)
(* Everything but a record is hidden, so only the next record is           *)
(* constrained: an append must be the next row.  Rows of tools are taken   *)
(* as they come while the step waits for its tools, and rows that the loop *)
(* does not write wherever somebody else may append.  How far each log     *)
(* came is printed; a log that came to its end is a behaviour.             *)
(***************************************************************************)
EXTENDS Driver, TraceData

CONSTANT
  Explain   \* print the records that were possible where each log stopped
            \* (Traces[log].stop says where that is)

VARIABLES
  log,      \* which of them is followed
  at        \* how many of its rows are explained

view == <<log, at, coreVars, control>>
vars == <<view, label>>

Rows == Traces[log].rows
Row  == Rows[at + 1]

-----------------------------------------------------------------------------
(* What the environment may do.  Calls that write are made only where the  *)
(* next row may be what they write.                                        *)

Operation(operation) == Call(operation, Free, MayWait(operation))

IsSplice == Row.kind = "record" /\ Row.label[2] = "agent/inbox/spliced"
Target   == Row.label[3]
Start0   == Row.label[4]
Removed  == Row.label[5]
Inserted == Row.label[6]
Outcome  == Row.label[7]

SendsIt ==
  /\ Removed = 0 /\ Len(Inserted) = 1
  /\ \/ \E wakeup \in BOOLEAN : Operation(<<"send", Inserted[1], Target, wakeup>>)
     \/ /\ Target = "next-turn" /\ Aborted(core)
        /\ Operation(<<"send", Inserted[1], "next-step", TRUE>>)

EditsIt ==
  /\ Removed = 0 => Len(Inserted) # 1 \/ Start0 # Len(Pending(core, Target))
  /\ Removed > 0 => Outcome = "canceled"
  /\ Operation(<<"splice", Target, Start0, Removed, Inserted>>)

ClearsIt ==
  /\ Outcome = "canceled" /\ Inserted = <<>> /\ Start0 = 0 /\ Removed = Len(Pending(core, Target))
  /\ \E cause \in {"user", "disposed"} : Operation(<<"cancel", cause, FALSE>>)

(* Calls that leave no record, where the log shows that they may have been *)
(* made: a cancel of an open turn is told by its end, and one before the   *)
(* opening by the want of it.  (Maintenance is not needed: what is sent    *)
(* meanwhile can as well be sent by a listener of the run that it starts.) *)
Silently ==
  \/ /\ phase # "idle"
     /\ \E cause \in Row.cancels :
          /\ signal = "" \/ (cause = "disposed" /\ AnyDisposalBarsLatch /\ ~doomed)
          /\ Operation(<<"cancel", cause, TRUE>>)
  \/ /\ latch /\ nextStep = <<>> /\ nextTurn = <<>>
     /\ Operation(<<"cancel", "user", FALSE>>)

Operations == Silently \/ (IsSplice /\ (SendsIt \/ EditsIt \/ ClearsIt))

Say(i, answer) == Answer(i, answer, Free)

(* A failure of the environment ends the turn with an error (or aborted,   *)
(* when it was): only then there was one.                                  *)
Fails(i, answer) == Row.fails /\ Say(i, answer)

Finishes == IF StreamsAreEmbedded THEN {"stop", "max-tokens", "failure"} ELSE {Row.finish}
Calls    == IF Row.label[2] = "assistant/message" THEN {Row.calls} ELSE BOOLEAN

AnswerAt(i) ==
  LET point == parked[i].point
  IN CASE point[1] = "pre-step" ->
            \/ \E batch \in {point[2]} \cup {SubSeq(Row.batch, 1, many) : many \in 0..Len(Row.batch)} :
                 Say(i, <<"enter", batch>>)
            \/ Row.rejects /\ Say(i, <<"reject">>)
            \/ Fails(i, <<"throws">>)
       [] point[1] = "prepare" ->
            \/ \E changed, context \in BOOLEAN, system \in 0..Row.system :
                 Say(i, <<"prepared", changed, context, system>>)
            \/ Fails(i, <<"throws">>)
       [] point[1] = "chunk" ->
            \/ ~StreamsAreEmbedded /\ Say(i, <<"chunk">>)
            \/ \E finish \in Finishes, calls \in Calls, visible \in IF Aborted(core) THEN BOOLEAN ELSE {TRUE} :
                 Say(i, <<"end", finish, calls, visible>>)
            \/ \E visible \in BOOLEAN : Fails(i, <<"throws", visible>>)
       [] point[1] = "close" -> \E visible \in BOOLEAN : Say(i, <<"closed", visible>>)
       [] point[1] = "tools" -> \/ \E answer \in {"continue", "concluded"} : Say(i, <<answer>>)
                                \/ Fails(i, <<"throws">>)
       [] point[1] = "recovery" -> \/ \E answer \in {"none", "retry"} : Say(i, <<answer>>)
                                   \/ Fails(i, <<"throws">>)
       [] point[1] \in {"tick", "gap", "maintenance"} -> Say(i, <<"done">>)
       [] OTHER -> Say(i, <<"done">>) \/ Fails(i, <<"throws">>)

Answers == \E i \in 1..Len(parked) : AnswerAt(i)

Move == Step \/ Begin \/ ((Operations \/ Answers) /\ UNCHANGED coreVars)

-----------------------------------------------------------------------------
(* Rows.                                                                   *)

IsRow == Row.kind = "record" /\ label' = Row.label

Hidden   == Move /\ label'[1] # "append" /\ at' = at
Recorded == Move /\ label'[1] = "append" /\ IsRow /\ at' = at + 1

(* A row of tools, while the step waits for them.                          *)
ByTools ==
  /\ Row.kind = "tool" /\ ~Runs
  /\ \E i \in 1..Len(parked) : parked[i].point = <<"tools">>

(* A row of somebody else: where nobody runs or listeners do, and the log  *)
(* is free.                                                                *)
ByOthers == Row.foreign /\ MayCall /\ ~LogIsLocked

Beside ==
  /\ ByTools \/ ByOthers
  /\ at' = at + 1
  /\ label' = <<"row">>
  /\ UNCHANGED <<coreVars, control>>

Told == Explain /\ at = Traces[log].stop
Candidate == Told /\ Move /\ label'[1] = "append" /\ ~IsRow /\ PrintT(<<"candidate", log, label'>>) /\ FALSE /\ at' = at

Next ==
  /\ at < Len(Rows)
  /\ Explain => at <= Traces[log].stop
  /\ Hidden \/ Recorded \/ Beside \/ Candidate
  /\ log' = log

Init ==
  /\ log \in DOMAIN Traces
  /\ at = 0
  /\ Start([turns |-> 1000, refusals |-> 0])
  /\ nextStep = Traces[log].nextStep /\ nextTurn = Traces[log].nextTurn
  /\ phase = "idle" /\ signal = "" /\ doomed = FALSE /\ latch = FALSE /\ closing = FALSE
  /\ turn = Traces[log].turn /\ step = 0 /\ ends = "" /\ headed = FALSE

Spec == Init /\ [][Next]_vars

ASSUME \A one \in DOMAIN Traces : TLCSet(one, -1)

(* Always true; it prints how far each log has come.                       *)
Progress == at <= TLCGet(log) \/ (TLCSet(log, at) /\ PrintT(<<"explained", log, at>>))
=============================================================================
