----------------------------- MODULE Composition -----------------------------
(***************************************************************************)
(* Driver, inbox, attempt and scheduler in one: a batch of tool calls      *)
(* (Scheduler.tla) at the await point `tools' of the driver.               *)
(*                                                                         *)
(* The turn has one signal (L-CAN-8): what the scheduler calls `aborted'   *)
(* is that the driver's signal has a cause.  The last `leave' of the batch *)
(* is at once the answer that the driver waits for.                        *)
(*                                                                         *)
(* Whoever calls the driver from a window of the batch runs on top of it.  *)
(* In a log window of the batch the log is locked for the driver too: what *)
(* waits begins when the observers of that record are done (L-LOG-3).      *)
(*                                                                         *)
(* What the surroundings do is said elsewhere: within a bound by LoopBatch,*)
(* along a recorded log by TraceLoop.                                      *)
(***************************************************************************)
EXTENDS Driver, BatchLaw

CONSTANTS
  Caps, Prepare, Body, Finalise,
  StoppedPoolStaysStopped,  \* law (T-402)
  BatchSizes   \* how many calls a batch may have

VARIABLES
  on,     \* a batch runs
  sCalls, \* so many calls
  sCut, sFailure, sNext, sDone, sLive, sEntered, sSlots, sConcluded, sReached, sBarred, sLost,
  sLeft, sMode, sLast, sCap, sPoint, sFrame, sWindow

lane ==
  <<sCut, sFailure, sNext, sDone, sLive, sEntered, sSlots, sConcluded, sReached, sBarred, sLost,
    sMode, sLast, sCap, sPoint, sFrame>>
inside == <<sCalls, lane, sWindow>>

Batch(calls) == INSTANCE Scheduler WITH
  Calls <- calls, LateEntry <- FALSE, SkipsBody <- FALSE, Aborts <- 0, Failures <- 0,
  aborted <- (signal # ""),
  cut <- sCut, failure <- sFailure, next <- sNext, done <- sDone, live <- sLive, entered <- sEntered,
  slots <- sSlots, concluded <- sConcluded, reached <- sReached, barred <- sBarred, lost <- sLost,
  left <- sLeft, mode <- sMode, last <- sLast, cap <- sCap, point <- sPoint, frame <- sFrame,
  window <- sWindow

-----------------------------------------------------------------------------
AtTools == parked # <<>> /\ parked[1].point[1] = "tools"
Still == ~Runs /\ waiting = <<>>
LaneRuns == on /\ sFrame # <<>>
IsDue == Still /\ AtTools /\ ~on

NoBatch ==
  /\ on = FALSE /\ sCalls = 0
  /\ sCut = FALSE /\ sFailure = <<>> /\ sNext = 1 /\ sDone = 0 /\ sLive = {} /\ sEntered = {}
  /\ sSlots = <<>> /\ sConcluded = FALSE /\ sReached = <<>> /\ sBarred = <<>> /\ sLost = FALSE
  /\ sMode = "exclusive" /\ sLast = 0 /\ sCap = 0
  /\ sPoint = <<>> /\ sFrame = <<>> /\ sWindow = "closed"

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
  /\ UNCHANGED <<coreVars, control, sLeft>>

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
  /\ UNCHANGED <<coreVars, waiting, begun, left, sLeft>>

(* The lane performs an effect, or its surroundings give an answer; `left' *)
(* is for whoever counts.                                                  *)
BatchMoves ==
  /\ Still /\ on
  /\ UNCHANGED <<coreVars, stack, parked, waiting, begun, on, sCalls>>
  /\ \E calls \in BatchSizes :
       /\ sCalls = calls
       /\ Batch(calls)!Lane \/ Batch(calls)!Surroundings \/ Batch(calls)!Failing
  /\ ~IsEnd(label')

(* Between two effects of the lane nobody calls; in its windows listeners  *)
(* do, one level deeper, and observers of its records find the log busy.   *)
Beside ==
  [may  |-> IF Runs \/ ~LaneRuns THEN MayCall ELSE sWindow # "closed",
   deep |-> IF LaneRuns THEN 1 ELSE 0,
   busy |-> LaneRuns /\ sWindow = "log"]

(* What the driver waits for is answered while the lane does not run.      *)
MayAnswer(i) == ~IsDue /\ ~LaneRuns /\ parked[i].point[1] # "tools"

(* When an operation begins that has waited for a record of the batch, the *)
(* observers of that record are done.                                      *)
WindowCloses ==
  sWindow' = IF label'[1] = "begin" /\ ~Runs THEN "closed" ELSE sWindow
=============================================================================
