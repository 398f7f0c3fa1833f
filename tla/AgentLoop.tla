------------------------------ MODULE AgentLoop ------------------------------
(***************************************************************************)
(* What a user of an agent may rely on, and no word about how it is done.  *)
(*                                                                         *)
(*  1  No message is lost: what was sent is pending until it is claimed by *)
(*     a turn or discarded on somebody's order, and nothing else happens   *)
(*     to it (LI-5, LI-6).                                                 *)
(*  2  An agent runs because it was woken, never by itself (LI-17).        *)
(*  3  Turns and steps are numbered from 1, nest and close; idle means     *)
(*     that everything is closed (LI-2, LI-3, LI-4, LI-23).                *)
(*  4  A cancelled turn opens no step and asks the model nothing; it says  *)
(*     who cancelled it first (LI-11, LI-12, LI-13, LI-16).                *)
(*  5  Each tool call has exactly one result before the model is asked     *)
(*     again (LI-19).                                                      *)
(*  6  A request is what the log says (LI-22): it carries as many surface  *)
(*     records as there are, and none of an open answer.                   *)
(*  7  What an agent was announced as, it is announced as gone.            *)
(*                                                                         *)
(* Loop.tla refines this module: 1 to 6 by what its labels show.  That     *)
(* sealed bytes never change is the subject of Tape.tla, and the pairing   *)
(* of created and disposed (7) that of Creation.tla, on their own states.  *)
(***************************************************************************)
EXTENDS Naturals

CONSTANTS Message, Prompts   \* who may be sent; how many prompts feed one turn

VARIABLES
  status,     \* "idle" or "running"
  woken,      \* somebody has asked for a run
  fate,       \* of each message: "unsent", "pending", "taken", "claimed", "entered", "discarded"
  openTurn,   \* number of the open turn, or 0
  lastTurn,   \* number of the last turn
  prompts,    \* how many prompts the open turn has claimed
  openStep,   \* number of the open step, or 0
  lastStep,   \* number of the last step of this turn
  cause,      \* who cancelled first, or ""
  said,       \* what the end of the last turn said: "ordinary", "error", or who cancelled it
  asking,     \* a request is in flight
  owed        \* tool calls without a result

vars == <<status, woken, fate, openTurn, lastTurn, prompts, openStep, lastStep, cause, said, asking, owed>>

Init ==
  /\ status = "idle" /\ woken = FALSE
  /\ fate = [m \in Message |-> "unsent"]
  /\ openTurn = 0 /\ lastTurn = 0 /\ prompts = 0
  /\ openStep = 0 /\ lastStep = 0
  /\ cause = "" /\ said = "" /\ asking = FALSE /\ owed = 0

message == <<fate, prompts>>
nesting == <<openTurn, lastTurn, openStep, lastStep>>
answers == <<asking, owed>>
verdict == <<cause, said>>

-----------------------------------------------------------------------------
(* 1  Messages.  A record may insert some and take others away; of what    *)
(* was taken the listeners then hear what became of it.                    *)

Ask == woken' = TRUE /\ UNCHANGED <<status, message, nesting, verdict, answers>>

Splice ==
  /\ \A m \in Message :
       \/ fate'[m] = fate[m]
       \/ fate'[m] = "pending" /\ fate[m] # "pending"
       \/ fate'[m] = "taken" /\ fate[m] = "pending"
  /\ prompts' <= Prompts
  /\ prompts' # prompts => openTurn # 0
  /\ UNCHANGED <<status, woken, nesting, verdict, answers>>

Becomes(m, old, new) ==
  /\ fate[m] = old
  /\ fate' = [fate EXCEPT ![m] = new]
  /\ UNCHANGED <<status, woken, prompts, nesting, verdict, answers>>

Claim(m)   == openTurn # 0 /\ Becomes(m, "taken", "claimed")
Discard(m) == Becomes(m, "taken", "discarded")
Enter(m)   == openStep # 0 /\ Becomes(m, "claimed", "entered")

-----------------------------------------------------------------------------
(* 2, 3  Runs, turns and steps.                                            *)

Wake == status = "idle" /\ woken /\ status' = "running" /\ woken' = FALSE
        /\ UNCHANGED <<message, nesting, verdict, answers>>

(* After a disposal nothing is replayed, whatever was asked before.        *)
Rest(disposed) ==
  /\ status = "running" /\ openTurn = 0 /\ status' = "idle" /\ cause' = ""
  /\ woken' = (woken /\ ~disposed)
  /\ UNCHANGED <<message, nesting, said, answers>>

(* A clearing cancel takes back what was asked of a run.                   *)
Forget == status = "running" /\ woken' = FALSE /\ UNCHANGED <<status, message, nesting, verdict, answers>>

OpenTurn ==
  /\ status = "running" /\ openTurn = 0 /\ cause = ""
  /\ openTurn' = lastTurn + 1 /\ lastTurn' = lastTurn + 1
  /\ openStep' = 0 /\ lastStep' = 0 /\ prompts' = 0 /\ said' = ""
  /\ UNCHANGED <<status, woken, fate, cause, answers>>

OpenStep ==
  /\ openTurn # 0 /\ openStep = 0 /\ cause = ""
  /\ openStep' = lastStep + 1 /\ lastStep' = lastStep + 1
  /\ UNCHANGED <<status, woken, message, openTurn, lastTurn, verdict, answers>>

CloseStep ==
  /\ openStep # 0 /\ openStep' = 0 /\ asking' = FALSE
  /\ UNCHANGED <<status, woken, message, openTurn, lastTurn, lastStep, verdict, owed>>

(* 4  A cancelled turn names its first cause, unless it had failed before. *)
CloseTurn ==
  /\ openTurn # 0 /\ openStep = 0
  /\ \/ said' = "ordinary" /\ cause = ""
     \/ said' = "error"
     \/ said' = cause /\ cause # ""
  /\ openTurn' = 0
  /\ UNCHANGED <<status, woken, message, lastTurn, openStep, lastStep, cause, answers>>

Abort(who) ==
  /\ cause = "" /\ cause' = who
  /\ UNCHANGED <<status, woken, message, nesting, said, answers>>

(* The next turn of a run begins under a new signal.                       *)
Renew == openTurn = 0 /\ cause' = "" /\ UNCHANGED <<status, woken, message, nesting, said, answers>>

-----------------------------------------------------------------------------
(* 4, 5, 6  Asking the model.                                              *)

Request ==
  /\ openStep # 0 /\ ~asking /\ owed = 0 /\ cause = ""
  /\ asking' = TRUE
  /\ UNCHANGED <<status, woken, message, nesting, verdict, owed>>

Answer(calls) ==
  /\ asking /\ asking' = FALSE /\ owed' = calls
  /\ UNCHANGED <<status, woken, message, nesting, verdict>>

Result(calls) ==
  /\ openStep # 0 /\ calls <= owed /\ owed' = owed - calls
  /\ UNCHANGED <<status, woken, message, nesting, verdict, asking>>

Next ==
  \/ Ask \/ Splice
  \/ \E m \in Message : Claim(m) \/ Discard(m) \/ Enter(m)
  \/ Wake \/ Forget \/ (\E disposed \in BOOLEAN : Rest(disposed)) \/ OpenTurn \/ OpenStep \/ CloseStep
  \/ CloseTurn
  \/ \E who \in {"user", "disposed"} : Abort(who)
  \/ Renew \/ Request
  \/ \E calls \in 0..3 : Answer(calls) \/ Result(calls)

Spec == Init /\ [][Next]_vars
=============================================================================
