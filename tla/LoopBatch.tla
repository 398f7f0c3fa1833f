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
(* From a log window that means: the call has waited until the observers   *)
(* were done (ObserverOperationsWait); wait and beginning are one step.    *)
(***************************************************************************)
EXTENDS Loop

CONSTANTS Caps, Prepare, Body, Finalise, Failures, StoppedPoolStaysStopped

VARIABLES
  on,  \* a batch runs
  sCut, sFailure, sNext, sDone, sLive, sEntered, sSlots, sConcluded, sReached, sBarred, sLost,
  sLeft, sMode, sLast, sCap, sPoint, sFrame, sWindow

batchVars ==
  <<on, sCut, sFailure, sNext, sDone, sLive, sEntered, sSlots, sConcluded, sReached, sBarred, sLost,
    sLeft, sMode, sLast, sCap, sPoint, sFrame, sWindow>>

batchView == <<loopView, batchVars>>
allVars == <<loopVars, batchVars>>

Batch == INSTANCE Scheduler WITH
  Calls <- BatchCalls, LateEntry <- FALSE, SkipsBody <- FALSE, Aborts <- 0,
  aborted <- (signal # ""),
  cut <- sCut, failure <- sFailure, next <- sNext, done <- sDone, live <- sLive, entered <- sEntered,
  slots <- sSlots, concluded <- sConcluded, reached <- sReached, barred <- sBarred, lost <- sLost,
  left <- sLeft, mode <- sMode, last <- sLast, cap <- sCap, point <- sPoint, frame <- sFrame,
  window <- sWindow

-----------------------------------------------------------------------------
AtTools == parked # <<>> /\ parked[1].point[1] = "tools"
Still == ~Runs /\ waiting = <<>>

(* The driver has parked at its tools: the lane begins.                    *)
BatchBegins ==
  /\ Still /\ AtTools /\ ~on
  /\ on' = TRUE
  /\ sCut' = FALSE /\ sFailure' = <<>> /\ sNext' = 1 /\ sDone' = 0 /\ sLive' = {} /\ sEntered' = {}
  /\ sSlots' = <<>> /\ sConcluded' = FALSE /\ sReached' = <<>> /\ sBarred' = <<>> /\ sLost' = FALSE
  /\ sMode' = "exclusive" /\ sLast' = 0 /\ sCap' = 0
  /\ sPoint' = <<>> /\ sFrame' = <<"left">> /\ sWindow' = "closed"
  /\ label' = <<"batch", BatchCalls>>
  /\ UNCHANGED <<coreVars, control, sLeft, seen>>

(* L-TOOL-13, L-TOOL-21: how the lane ends.                                *)
IsEnd(l) == l[1] = "leave" /\ l[2] \in {"concluded", "continue", "throws"}

BatchMoves ==
  /\ Still /\ on
  /\ UNCHANGED <<coreVars, waiting, begun, left>>
  /\ Batch!Lane \/ Batch!Surroundings \/ Batch!Failing
  /\ IF IsEnd(label')
     THEN /\ on' = FALSE
          /\ stack' = <<Activation(Append(parked[1].frame, <<label'[2]>>), "closed", FALSE)>>
          /\ parked' = Tail(parked)
     ELSE UNCHANGED <<on, stack, parked>>
  /\ seen' = IF label'[1] = "append" THEN See(seen, label') ELSE seen

(* Between two effects of the lane nobody calls.                           *)
Open == ~on \/ Runs \/ sFrame = <<>> \/ sWindow # "closed"

OtherAnswers == \E i \in 1..Len(parked) : parked[i].point[1] # "tools" /\ AnswerAt(i)

DriverMoves ==
  /\ UNCHANGED batchVars
  /\ \/ Step
     \/ Begin
     \/ Open /\ Operations /\ UNCHANGED coreVars
     \/ OtherAnswers /\ UNCHANGED coreVars
  /\ seen' = See(seen, label')

BatchInit ==
  /\ LoopInit
  /\ on = FALSE
  /\ sCut = FALSE /\ sFailure = <<>> /\ sNext = 1 /\ sDone = 0 /\ sLive = {} /\ sEntered = {}
  /\ sSlots = <<>> /\ sConcluded = FALSE /\ sReached = <<>> /\ sBarred = <<>> /\ sLost = FALSE
  /\ sLeft = [abort |-> 0, failure |-> Failures]
  /\ sMode = "exclusive" /\ sLast = 0 /\ sCap = 0
  /\ sPoint = <<>> /\ sFrame = <<>> /\ sWindow = "closed"

BatchNext == DriverMoves \/ BatchBegins \/ BatchMoves
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
AbortInBatch == ~(on /\ signal # "" /\ sNext = 2 /\ sDone = 0)
=============================================================================
