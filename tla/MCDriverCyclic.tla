--------------------------- MODULE MCDriverCyclic ---------------------------
(***************************************************************************)
(* The driver without budgets: runs of any length in a finite graph, for   *)
(* what must happen at last.                                               *)
(*                                                                         *)
(* Turn numbers are folded away and step numbers beyond 1 too; only what   *)
(* is pending is capped.  A new message gets the smallest number that no   *)
(* pending message has: claimed ones may be sent again (L-IN-7).           *)
(*                                                                         *)
(* Liveness is judged for surroundings that have gone silent: from some    *)
(* moment on nobody calls, listeners return, and every await point gets a  *)
(* usual answer at last.  Users who send for ever keep an agent running    *)
(* for ever.                                                               *)
(***************************************************************************)
EXTENDS Driver

CONSTANT Cap   \* how many messages may be pending

VARIABLE silent  \* nobody calls any more

vars == <<coreVars, control, label, silent>>

Folded(c) == Becomes([c EXCEPT !.turn = 0, !.step = Min(@, 1)])

-----------------------------------------------------------------------------
(* Numbers on their way into a list.                                       *)
OnTheirWay(f) ==
  CASE f[1] = "send"    -> {f[2]}
    [] f[1] = "project" -> Range(f[5])
    [] OTHER            -> {}

Taken ==
  Range(nextStep) \cup Range(nextTurn)
  \cup UNION {OnTheirWay(stack[i].frame) : i \in 1..Len(stack)}
  \cup UNION {OnTheirWay(waiting[i]) : i \in 1..Len(waiting)}

Fresh == CHOOSE n \in 1..(Cap + Depth + 2) : n \notin Taken /\ \A k \in 1..(n - 1) : k \in Taken

Operation(operation) == Call(operation, Free, MayWait(operation))

Calls ==
  \/ /\ Len(nextStep) + Len(nextTurn) < Cap
     /\ \/ Operation(<<"send", Fresh, "next-turn", TRUE>>)
        \/ Operation(<<"send", Fresh, "next-step", TRUE>>)
        \/ Operation(<<"send", Fresh, "next-step", FALSE>>)
  \/ \E cause \in {"user", "disposed"}, keep \in BOOLEAN : Operation(<<"cancel", cause, keep>>)
  \/ phase = "idle" /\ Operation(<<"maintain">>)

-----------------------------------------------------------------------------
(* Usual answers only.                                                     *)
Usual(point) ==
  CASE point[1] = "pre-step" -> {<<"enter", point[2]>>}
    [] point[1] = "prepare"  ->
         {<<"prepared", FALSE, ~headed, IF ~headed /\ StreamsAreEmbedded THEN 1 ELSE 0>>}
    [] point[1] = "chunk" ->
         IF point[2] THEN {<<"end", "stop", FALSE, TRUE>>} \cup (IF signal # "" THEN {<<"chunk">>} ELSE {})
         ELSE {<<"chunk">>} \cup (IF signal # "" THEN {<<"throws", FALSE>>} ELSE {})
    [] point[1] = "close"    -> {<<"closed", point[2]>>}
    [] OTHER                 -> {<<"done">>}

Answers == \E i \in 1..Len(parked) : \E answer \in Usual(parked[i].point) : Answer(i, answer, Free)

-----------------------------------------------------------------------------
StepFolded ==
  /\ Runs /\ ~MayBegin(CatchesUp)
  /\ \E o \in {Spoken(core, Top.frame)} : Perform(o, Free, Folded)

(* What happens at last: segments go on, and waits are answered.           *)
GoesOn == UNCHANGED silent /\ (StepFolded \/ Begin \/ (Answers /\ UNCHANGED coreVars))

Surroundings == ~silent /\ UNCHANGED silent /\ Calls /\ UNCHANGED coreVars

FallsSilent == ~silent /\ silent' = TRUE /\ UNCHANGED <<coreVars, control, label>>

Next == GoesOn \/ Surroundings \/ FallsSilent

Init ==
  /\ Start([refusals |-> 0]) /\ silent = FALSE
  /\ nextStep = <<>> /\ nextTurn = <<>> /\ phase = "idle" /\ signal = "" /\ doomed = FALSE
  /\ latch = FALSE /\ closing = FALSE /\ turn = 0 /\ step = 0 /\ ends = "" /\ headed = FALSE

(* Nobody is promised to fall silent; only what goes on is fair: weak      *)
(* fairness of GoesOn, which is possible wherever it is not quiet.  It is  *)
(* written out, since TLC takes minutes for ENABLED of nested rules.       *)
WentOn == silent' = silent /\ label'[1] \notin {"call", "wait"}

UnfairSpec == Init /\ [][Next]_vars
Spec == UnfairSpec /\ ([]<>Quiet \/ []<><<WentOn>>_vars)

-----------------------------------------------------------------------------
At(name) == Runs /\ Top.frame[1] = name
Opens == \E i \in 1..Len(stack) : stack[i].frame[1] = "turn opened"
Claims == \E i \in 1..Len(stack) : stack[i].frame[1] \in {"claim prompt", "tell claimed"}

(* LI-30: every activity ends, and those who wait for idleness go on.      *)
EveryActivityEnds == silent ~> (stack = <<>> /\ parked = <<>> /\ phase = "idle")

(* LI-31: a run that was woken opens a turn, unless cancelled before (CW1).*)
WokenRunOpens == (silent /\ At("open turn") /\ signal = "") ~> (Opens \/ signal # "")

(* LI-32: a prompt behind a live turn with a step is claimed in that run.  *)
PromptIsClaimed ==
  (/\ silent /\ phase = "running" /\ signal = "" /\ ~closing /\ step > 0
   /\ parked # <<>> /\ parked[1].point[1] # "gap" /\ nextTurn # <<>>)
  ~> (Claims \/ signal # "")

(* LI-33: a latched wake with something pending opens a turn.              *)
LatchedWakeRuns ==
  (silent /\ stack = <<>> /\ latch /\ HasPending(core) /\ ~IsBarred(core))
  ~> (Opens \/ ~HasPending(core) \/ IsBarred(core))
=============================================================================
