------------------------------ MODULE AgentLoop ------------------------------
(***************************************************************************)
(* What a user of an agent may rely on: six promises, and no word about    *)
(* how they are kept.  Each is a formula about what can be seen from       *)
(* outside; each is checked of the model that has to keep it.              *)
(*                                                                         *)
(*  1 to 3  Loop.tla and LoopBatch.tla   5  RequestPromise.tla             *)
(*  4       CreationPromise.tla          6  TapePromise.tla                *)
(***************************************************************************)
EXTENDS Naturals, Sequences

CONSTANTS Message, Object   \* who may be sent; what can be created

VARIABLES
  status, woken, due, resting,              \* a run is on; asked for; owed after an abort; nothing moves
  fate,                                     \* of each message
  openTurn, lastTurn, openStep, lastStep,   \* numbers; 0 is none
  prompts, cause, said,                     \* claimed by this turn; who cancelled first; how the turn ended
  asking, owed,                             \* a request is in flight; the calls without a result
  life, over,                               \* of each object; whose teardown has settled
  request, told,                            \* what is in flight, or <<>>; what the log says of a request now
  tape, compactions                         \* what requests show up to the last seal; stretches summed up by order

-----------------------------------------------------------------------------
(* 1  No waking message is lost: what was sent is pending until a turn     *)
(* claims it or somebody has it discarded, and at rest no wake is due that *)
(* has something to run (LI-5, LI-6, LI-33).                               *)

Becomes(m) ==
  CASE fate'[m] = "pending"   -> TRUE
    [] fate'[m] = "taken"     -> fate[m] = "pending"
    [] fate'[m] = "discarded" -> fate[m] = "taken"
    [] fate'[m] = "claimed"   -> fate[m] = "taken" /\ openTurn # 0
    [] fate'[m] = "entered"   -> fate[m] = "claimed" /\ openStep # 0

NoMessageIsLost ==
  /\ fate = [m \in Message |-> "unsent"]
  /\ [][\A m \in Message : fate'[m] = fate[m] \/ Becomes(m)]_fate
  /\ [](resting => \A m \in Message : fate[m] # "taken" /\ (due => fate[m] # "pending"))

-----------------------------------------------------------------------------
(* 2  Each tool call gets exactly one result before its step closes, and   *)
(* so before the next request; a cancelled turn asks nothing (LI-11,       *)
(* LI-19).                                                                 *)

Ask    == ~asking /\ asking' /\ owed = {} /\ owed' = {} /\ openStep # 0 /\ cause = ""
Answer == asking /\ ~asking'
Result == asking' = asking /\ \E call \in owed : owed' = owed \ {call}

EachCallIsAnswered ==
  /\ ~asking /\ owed = {}
  /\ [][Ask \/ Answer \/ Result]_<<asking, owed>>
  /\ [](openStep = 0 => owed = {})

-----------------------------------------------------------------------------
(* 3  Turns and steps are numbered from 1, nest and close.  A run begins   *)
(* because somebody woke the agent, and ends with everything closed.  A    *)
(* cancelled turn opens no step, and says who cancelled it first, unless   *)
(* it had failed before (LI-2 to LI-4, LI-12 to LI-17, LI-23).             *)

OpenTurn  == /\ status = "running" /\ openTurn = 0 /\ cause = ""
             /\ openTurn' = lastTurn + 1 /\ lastTurn' = lastTurn + 1 /\ openStep' = 0 /\ lastStep' = 0 /\ said' = ""
OpenStep  == /\ openTurn # 0 /\ openStep = 0 /\ cause = ""
             /\ openStep' = lastStep + 1 /\ lastStep' = lastStep + 1 /\ UNCHANGED <<openTurn, lastTurn, said>>
CloseStep == openStep # 0 /\ openStep' = 0 /\ UNCHANGED <<openTurn, lastTurn, lastStep, said>>
CloseTurn == /\ openTurn # 0 /\ openStep = 0 /\ openTurn' = 0 /\ UNCHANGED <<lastTurn, openStep, lastStep>>
             /\ said' \in {"error", IF cause = "" THEN "ordinary" ELSE cause}

Run  == status = "idle" /\ woken /\ status' = "running" /\ ~woken'
Rest == status = "running" /\ openTurn = 0 /\ status' = "idle" /\ (woken' => woken)
Wake == status' = status /\ (woken' \/ status = "running")   \* or a clearing cancel takes it back

nesting == <<openTurn, lastTurn, openStep, lastStep, said>>

TurnsAndStepsNest ==
  /\ nesting = <<0, 0, 0, 0, "">> /\ status = "idle" /\ ~woken /\ cause = "" /\ prompts = 0
  /\ [][OpenTurn \/ OpenStep \/ CloseStep \/ CloseTurn]_nesting
  /\ [][Run \/ Rest \/ Wake]_<<status, woken>>
  /\ [][cause = "" \/ (cause' = "" /\ openTurn = 0)]_cause
  /\ [][prompts' = 0 \/ (prompts' = 1 /\ openTurn # 0)]_prompts

-----------------------------------------------------------------------------
(* 4  Created and disposed pair: what was announced is announced as gone,  *)
(* once, and behind its teardown nothing is left over (INV-1 to INV-3).    *)

CreatedAndDisposedPair ==
  /\ life = [o \in Object |-> "unborn"]
  /\ [][\A o \in Object : \/ life'[o] = life[o]
                          \/ life[o] = "unborn" /\ life'[o] = "created"
                          \/ life[o] = "created" /\ life'[o] = "disposed"]_life
  /\ [](\A o \in over : life[o] # "created")

-----------------------------------------------------------------------------
(* 5  A request equals its reconstruction from the log (INV-L4, LI-22).    *)

RequestIsItsReconstruction == request = <<>> /\ [][request' \in {<<>>, told}]_request

-----------------------------------------------------------------------------
(* 6  Sealed bytes never change: what requests show up to the last seal is *)
(* a prefix of what later ones show, until somebody has it summed up       *)
(* (PX-2, PX-5, INV-06, TP-42).                                            *)

IsPrefix(short, long) == Len(short) <= Len(long) /\ short = SubSeq(long, 1, Len(short))

SealedBytesNeverChange == [][IsPrefix(tape, tape') \/ compactions' # compactions]_tape

Promises ==
  /\ NoMessageIsLost /\ EachCallIsAnswered /\ TurnsAndStepsNest
  /\ CreatedAndDisposedPair /\ RequestIsItsReconstruction /\ SealedBytesNeverChange
=============================================================================
