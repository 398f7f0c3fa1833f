------------------------------ MODULE LoopBatch ------------------------------
(***************************************************************************)
(* Driver, inbox, attempt and scheduler in one: the loop of Loop.tla, with *)
(* a batch of tool calls (Scheduler.tla) at the await point `tools'.       *)
(*                                                                         *)
(* The turn has one signal (L-CAN-8): what the scheduler calls `aborted'   *)
(* is that the driver's signal has a cause.  The last `leave' of the batch *)
(* is at once the answer that the driver waits for.                        *)
(*                                                                         *)
(* Whoever calls the driver from a window of the batch runs on top of it.  *)
(* In a log window of the batch the log is locked for the driver too: what *)
(* waits begins when the observers of that record are done (L-LOG-3).      *)
(***************************************************************************)
EXTENDS Loop

CONSTANTS Caps, Prepare, Body, Finalise, StoppedPoolStaysStopped

CONSTANTS
  BatchSizes,  \* how many calls a batch may have; BatchCalls is the most
  Failures,    \* failures of the tools' machinery, on top of those that the driver's budgets pay
  OneBudget,   \* those failures are paid from `faults' and `refusals', like the driver's
  Watched      \* the bystander of Loop.tla remembers what it sees

VARIABLES
  on,     \* a batch runs
  sCalls, \* so many calls
  sCut, sFailure, sNext, sDone, sLive, sEntered, sSlots, sConcluded, sReached, sBarred, sLost,
  sLeft, sMode, sLast, sCap, sPoint, sFrame, sWindow

inside ==
  <<sCalls, sCut, sFailure, sNext, sDone, sLive, sEntered, sSlots, sConcluded, sReached, sBarred, sLost,
    sMode, sLast, sCap, sPoint, sFrame, sWindow>>

batchView == <<loopView, on, inside, sLeft>>
allVars == <<loopVars, on, inside, sLeft>>

Batch(calls) == INSTANCE Scheduler WITH
  Calls <- calls, LateEntry <- FALSE, SkipsBody <- FALSE, Aborts <- 0,
  aborted <- (signal # ""),
  cut <- sCut, failure <- sFailure, next <- sNext, done <- sDone, live <- sLive, entered <- sEntered,
  slots <- sSlots, concluded <- sConcluded, reached <- sReached, barred <- sBarred, lost <- sLost,
  left <- sLeft, mode <- sMode, last <- sLast, cap <- sCap, point <- sPoint, frame <- sFrame,
  window <- sWindow

Watch(l) == seen' = IF Watched THEN See(seen, l) ELSE seen

(* What the batch may still spend on failures.                             *)
Purse(l, own) == [abort |-> 0, failure |-> IF OneBudget THEN l.faults + l.refusals ELSE own]

-----------------------------------------------------------------------------
AtTools == parked # <<>> /\ parked[1].point[1] = "tools"
Still == ~Runs /\ waiting = <<>>
LaneRuns == on /\ sFrame # <<>>
IsDue == Still /\ AtTools /\ ~on

(* Nothing is kept of a batch that is over.                                *)
Begins(calls, frame) ==
  /\ sCalls' = calls
  /\ sCut' = FALSE /\ sFailure' = <<>> /\ sNext' = 1 /\ sDone' = 0 /\ sLive' = {} /\ sEntered' = {}
  /\ sSlots' = <<>> /\ sConcluded' = FALSE /\ sReached' = <<>> /\ sBarred' = <<>> /\ sLost' = FALSE
  /\ sMode' = "exclusive" /\ sLast' = 0 /\ sCap' = 0
  /\ sPoint' = <<>> /\ sFrame' = frame /\ sWindow' = "closed"

(* The driver has parked at its tools: the lane begins.                    *)
BatchBegins ==
  /\ IsDue
  /\ on' = TRUE
  /\ \E calls \in BatchSizes : Begins(calls, <<"left">>) /\ label' = <<"batch", calls>>
  /\ UNCHANGED <<coreVars, control, sLeft, seen>>

(* L-TOOL-13, L-TOOL-21: how the lane ends.                                *)
IsEnd(l) == l[1] = "leave" /\ l[2] \in {"concluded", "continue", "throws"}

Ends(calls) ==
  /\ Batch(calls)!Steps
  /\ \/ /\ Batch(calls)!BatchIsOver
        /\ label' = <<"leave", IF Batch(calls)!Concluded THEN "concluded" ELSE "continue">>
     \/ /\ Batch(calls)!MayThrow
        /\ label' = Batch(calls)!Said(Batch(calls)!Failure)

BatchEnds ==
  /\ Still /\ on
  /\ \E calls \in BatchSizes : sCalls = calls /\ Ends(calls)
  /\ Begins(0, <<>>)
  /\ on' = FALSE
  /\ stack' = <<Activation(Append(parked[1].frame, <<label'[2]>>), "closed", FALSE)>>
  /\ parked' = Tail(parked)
  /\ UNCHANGED <<coreVars, waiting, begun, left, sLeft, seen>>

(* What fails in the machinery is paid like a fault of the driver's.       *)
Pays ==
  LET budget == IF label'[1] = "refuse" THEN "refusals" ELSE "faults"
  IN IF OneBudget /\ sLeft' # sLeft
     THEN left[budget] > 0 /\ left' = [left EXCEPT ![budget] = @ - 1]
     ELSE UNCHANGED left

BatchMoves ==
  /\ Still /\ on
  /\ UNCHANGED <<coreVars, stack, parked, waiting, begun, on, sCalls>>
  /\ \E calls \in BatchSizes :
       /\ sCalls = calls
       /\ Batch(calls)!Lane \/ Batch(calls)!Surroundings \/ Batch(calls)!Failing
  /\ ~IsEnd(label')
  /\ Pays
  /\ IF label'[1] = "append" THEN Watch(label') ELSE UNCHANGED seen

(* Between two effects of the lane nobody calls; in its windows listeners  *)
(* do, one level deeper, and observers of its records find the log busy.   *)
Beside ==
  [may  |-> IF Runs \/ ~LaneRuns THEN MayCall ELSE sWindow # "closed",
   deep |-> IF LaneRuns THEN 1 ELSE 0,
   busy |-> LaneRuns /\ sWindow = "log"]

OtherAnswers ==
  /\ ~IsDue /\ ~LaneRuns
  /\ \E i \in 1..Len(parked) : parked[i].point[1] # "tools" /\ AnswerAt(i)

(* When an operation begins that has waited for a record of the batch, the *)
(* observers of that record are done.                                      *)
WindowCloses ==
  sWindow' = IF label'[1] = "begin" /\ ~Runs THEN "closed" ELSE sWindow

DriverMoves ==
  /\ \/ Step
     \/ Begin
     \/ OperationsFrom(Beside) /\ UNCHANGED coreVars
     \/ OtherAnswers /\ UNCHANGED coreVars
  /\ WindowCloses
  /\ sLeft' = IF OneBudget THEN Purse(left', 0) ELSE sLeft
  /\ UNCHANGED <<on, sCalls, sCut, sFailure, sNext, sDone, sLive, sEntered, sSlots, sConcluded, sReached,
                 sBarred, sLost, sMode, sLast, sCap, sPoint, sFrame>>
  /\ Watch(label')

BatchInit ==
  /\ LoopInit
  /\ on = FALSE /\ sCalls = 0
  /\ sCut = FALSE /\ sFailure = <<>> /\ sNext = 1 /\ sDone = 0 /\ sLive = {} /\ sEntered = {}
  /\ sSlots = <<>> /\ sConcluded = FALSE /\ sReached = <<>> /\ sBarred = <<>> /\ sLost = FALSE
  /\ sLeft = Purse(left, Failures)
  /\ sMode = "exclusive" /\ sLast = 0 /\ sCap = 0
  /\ sPoint = <<>> /\ sFrame = <<>> /\ sWindow = "closed"

BatchNext == DriverMoves \/ BatchBegins \/ BatchMoves \/ BatchEnds
BatchSpec == BatchInit /\ [][BatchNext]_allVars

-----------------------------------------------------------------------------
(* The refinement: AgentLoop, now with every single result of the log.     *)
BatchRefines == [][Abstract!Next]_(Abstract!vars)

(* LI-19: when the step of a batch closes, every call has had its result.  *)
EveryCallIsAnswered ==
  [][(label'[1] = "append" /\ label'[2] = "step/end") => seen.owed = 0]_allVars

(* LI-20: no message comes between the calls and their results.            *)
NothingSplitsAnswers ==
  [][(label'[1] = "append" /\ label'[2] = "user/message") => seen.owed = 0]_allVars

(* LR-141, reachable: an abort inside the batch, at the record of a call.  *)
AbortInBatch == ~(signal # "" /\ sFrame = <<"prepare", 1>>)
=============================================================================
