------------------------------ MODULE TraceLoop ------------------------------
(***************************************************************************)
(* Is a recorded log a behaviour of the loop, for some surroundings?       *)
(*                                                                         *)
(* `Traces', of the generated module TraceData, are logs; each one has the *)
(* pending lists and the last turn with which its driver begins, and its   *)
(* rows.  A row says which record or live event it is (`label'), and what  *)
(* the surroundings must have known by then: how the open attempt finished *)
(* so far (`finish'), which messages the next step enters (`batch'), how   *)
(* many calls the last answer made (`size') and how many of them are open  *)
(* at a time (`room'), how the open turn ends (`cancels', `fails',         *)
(* `rejects').                                                             *)
(*                                                                         *)
(* Everything but the records, and the live events that a trace tells      *)
(* (`events'), is hidden: only the next row is constrained.  Rows that the *)
(* loop does not write are taken wherever somebody else may append.  How   *)
(* far each log came is printed; a log that came to its end is a behaviour.*)
(***************************************************************************)
EXTENDS Composition, TraceData

CONSTANT
  Explain   \* print the rows that were possible where each log stopped
            \* (Traces[log].stop says where that is)

VARIABLES
  log,      \* which of them is followed
  at        \* how many of its rows are explained

view == <<log, at, coreVars, control, on, inside, sLeft>>
vars == <<view, label>>

This == Traces[log]
Rows == This.rows
Row  == Rows[at + 1]
Name == Row.label[2]

Stopped == Explain /\ at = This.stop

-----------------------------------------------------------------------------
(* What the environment may do.  Calls that write are made only where the  *)
(* next row may be what they write.                                        *)

Operation(operation) == CallFrom(Beside, operation, Free, MayWait(operation))

IsSplice == Row.kind = "record" /\ Name = "agent/inbox/spliced"
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

(* C-INI: a wake that came before the agent was published is kept for then. *)
KeptWake == This.gated /\ phase = "idle" /\ turn = This.turn /\ ~Runs /\ Operation(<<"wake", FALSE>>)

Operations == Silently \/ KeptWake \/ (IsSplice /\ (SendsIt \/ EditsIt \/ ClearsIt))

Say(i, answer) == Answer(i, answer, Free)

(* A failure of the environment ends the turn with an error (or aborted,   *)
(* when it was): only then there was one.                                  *)
Fails(i, answer) == Row.fails /\ Say(i, answer)

(* A piece of a stream is a record, or a live event that may be told.      *)
ChunksAreTold == ~StreamsAreEmbedded \/ "agent/assistant-stream" \in This.events

Finishes == IF StreamsAreEmbedded THEN {"stop", "max-tokens", "failure"} ELSE {Row.finish}
Calls    == IF Name = "assistant/message" THEN {Row.calls} ELSE BOOLEAN

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
            \/ ChunksAreTold /\ Say(i, <<"chunk">>)
            \/ \E finish \in Finishes, calls \in Calls, visible \in IF Aborted(core) THEN BOOLEAN ELSE {TRUE} :
                 Say(i, <<"end", finish, calls, visible>>)
            \/ \E visible \in BOOLEAN : Fails(i, <<"throws", visible>>)
       [] point[1] = "close" -> \E visible \in BOOLEAN : Say(i, <<"closed", visible>>)
       [] point[1] = "recovery" -> \/ \E answer \in {"none", "retry"} : Say(i, <<answer>>)
                                   \/ Fails(i, <<"throws">>)
       [] point[1] \in {"tick", "gap", "maintenance"} -> Say(i, <<"done">>)
       [] OTHER -> Say(i, <<"done">>) \/ Fails(i, <<"throws">>)

Answers == \E i \in 1..Len(parked) : MayAnswer(i) /\ AnswerAt(i)

DriverMoves ==
  /\ Step \/ Begin \/ ((Operations \/ Answers) /\ UNCHANGED coreVars)
  /\ WindowCloses
  /\ UNCHANGED <<on, sCalls, lane, sLeft>>

-----------------------------------------------------------------------------
(* The batch, with as many calls as the answer had.  Of what is hidden     *)
(* only that is tried which may matter: a body settles late unless its     *)
(* place is needed, a pool has as many places as were ever taken, and the  *)
(* machinery fails in a turn that came to a bad end, and then no more but  *)
(* for records that are refused.                                           *)

ForAnother == Name = "tool/result" /\ sFailure = <<>> /\ ~Stopped

Useful ==
  /\ (label'[1] = "answer" /\ label'[2] = "body" /\ ForAnother) => label'[3] = Row.label[3]
  /\ (label'[1] = "answer" /\ label'[2] = "cap" /\ label'[3] = "cap") => label'[4] <= Row.room
  /\ sLeft' # sLeft => Row.fails /\ (sFailure = <<>> \/ label'[1] = "refuse")

LaneMoves ==
  \/ BatchBegins /\ label'[2] = Row.size
  \/ BatchMoves /\ UNCHANGED left /\ Useful
  \/ BatchEnds

Move == DriverMoves \/ LaneMoves

-----------------------------------------------------------------------------
(* Rows.                                                                   *)

(* A synthetic result says that its call was never dispatched.             *)
Shows(l) ==
  IF l[1] = "append" /\ l[2] = "tool/result" /\ l[4] = "never-started"
  THEN <<"append", "tool/result", l[3], "aborted-before-dispatch">> ELSE l

IsTold(l) == l[1] = "append" \/ (l[1] = "notify" /\ l[2] \in This.events)
IsRow == Row.kind = "record" /\ Shows(label') = Row.label

Hidden   == Move /\ ~IsTold(label') /\ at' = at
Recorded == Move /\ IsTold(label') /\ IsRow /\ at' = at + 1

(* A row of somebody else: where nobody runs or listeners do, and the log  *)
(* is free.                                                                *)
ByOthers ==
  /\ Row.foreign /\ Beside.may /\ ~LogIsLocked /\ ~Beside.busy
  /\ at' = at + 1
  /\ label' = <<"row">>
  /\ UNCHANGED <<coreVars, control, on, inside, sLeft>>

Candidate ==
  Stopped /\ Move /\ IsTold(label') /\ ~IsRow /\ PrintT(<<"candidate", log, Shows(label')>>) /\ FALSE /\ at' = at

Next ==
  /\ at < Len(Rows)
  /\ Explain => at <= This.stop
  /\ Hidden \/ Recorded \/ ByOthers \/ Candidate
  /\ log' = log

Init ==
  /\ log \in DOMAIN Traces
  /\ at = 0
  /\ Start([turns |-> 1000, refusals |-> This.refusals])
  /\ nextStep = This.nextStep /\ nextTurn = This.nextTurn
  /\ phase = "idle" /\ signal = "" /\ doomed = FALSE /\ latch = FALSE /\ closing = FALSE
  /\ turn = This.turn /\ step = 0 /\ ends = "" /\ headed = FALSE
  /\ NoBatch /\ sLeft = [abort |-> 0, failure |-> 1000]

Spec == Init /\ [][Next]_vars

(* Post-execute accepts, with or without the conclude mark and contexts.   *)
Finals == << <<"accept", FALSE, FALSE>>, <<"accept", TRUE, FALSE>>, <<"accept", FALSE, TRUE>>,
             <<"accept", TRUE, TRUE>>, <<"block", FALSE>>, <<"block", TRUE>> >>

ASSUME \A one \in DOMAIN Traces : TLCSet(one, -1)

(* Always true; it prints how far each log has come.                       *)
Progress == at <= TLCGet(log) \/ (TLCSet(log, at) /\ PrintT(<<"explained", log, at>>))
=============================================================================
