------------------------------ MODULE LoopBatch ------------------------------
(***************************************************************************)
(* The loop of Loop.tla with its tool batches (Composition.tla), within a  *)
(* bound.                                                                  *)
(***************************************************************************)
EXTENDS Loop, Composition

CONSTANTS
  Failures,    \* failures of the tools' machinery, on top of those that the driver's budgets pay
  OneBudget,   \* those failures are paid from `faults' and `refusals', like the driver's
  Watched      \* the bystander of Loop.tla remembers what it sees

batchView == <<loopView, on, inside, sLeft>>
allVars == <<loopVars, on, inside, sLeft>>

Watch(l) == seen' = IF Watched THEN See(seen, l) ELSE seen

(* What the batch may still spend on failures.                             *)
Purse(l, own) == [abort |-> 0, failure |-> IF OneBudget THEN l.faults + l.refusals ELSE own]

(* What fails in the machinery is paid like a fault of the driver's.       *)
Pays ==
  LET budget == IF label'[1] = "refuse" THEN "refusals" ELSE "faults"
  IN IF OneBudget /\ sLeft' # sLeft
     THEN left[budget] > 0 /\ left' = [left EXCEPT ![budget] = @ - 1]
     ELSE UNCHANGED left

BatchSteps ==
  /\ BatchMoves
  /\ Pays
  /\ IF label'[1] = "append" THEN Watch(label') ELSE UNCHANGED seen

OtherAnswers == \E i \in 1..Len(parked) : MayAnswer(i) /\ AnswerAt(i)

DriverMoves ==
  /\ \/ Step
     \/ Begin
     \/ OperationsFrom(Beside) /\ UNCHANGED coreVars
     \/ OtherAnswers /\ UNCHANGED coreVars
  /\ WindowCloses
  /\ sLeft' = IF OneBudget THEN Purse(left', 0) ELSE sLeft
  /\ UNCHANGED <<on, sCalls, lane>>
  /\ Watch(label')

BatchInit == LoopInit /\ NoBatch /\ sLeft = Purse(left, Failures)
BatchNext == DriverMoves \/ ((BatchBegins \/ BatchEnds) /\ UNCHANGED seen) \/ BatchSteps
BatchSpec == BatchInit /\ [][BatchNext]_allVars

-----------------------------------------------------------------------------
(* Promises 1 to 3 of AgentLoop hold of the batch as well, now with every  *)
(* single result of the log.                                               *)

(* LI-20: no message comes between the calls and their results.            *)
NothingSplitsAnswers ==
  [][(label'[1] = "append" /\ label'[2] = "user/message") => seen.owed = {}]_allVars

(* LR-141, reachable: an abort inside the batch, at the record of a call.  *)
AbortInBatch == ~(signal # "" /\ sFrame = <<"prepare", 1>>)

(* Playable (Loop.tla), with what the batch is told.                       *)
PlayableWithBatch ==
  IF on /\ parked' = parked /\ label'[1] = "answer"
  THEN \E calls \in BatchSizes : sCalls = calls /\ Batch(calls)!PlayableMove
  ELSE Playable
=============================================================================
