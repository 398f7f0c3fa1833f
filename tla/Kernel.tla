------------------------------- MODULE Kernel -------------------------------
(***************************************************************************)
(* Micro-steps, windows and waiting operations.                            *)
(*                                                                         *)
(* An agent loop is single-threaded and cooperative (agent-loop 0.4): what *)
(* runs between two await points is one synchronous segment, and nobody    *)
(* else runs in it but the synchronous listeners that it calls itself.     *)
(* These listeners may call back.  So one step of this model is ONE effect *)
(* of a segment, and after an effect that listeners hear a window is open. *)
(*                                                                         *)
(* A routine is a frame <<name, locals...>>.  Its rule is a function of    *)
(* the core state c, a record, and the frame; it has one of six outcomes:  *)
(*                                                                         *)
(*   Appends    a durable record; its observers run in a log window        *)
(*   Notifies   a live event; its listeners run in a live window           *)
(*   Notes      a change that nobody hears                                 *)
(*   Parks      the routine waits at an await point                        *)
(*   Leaves     the synchronous call ends                                  *)
(*   Goes       no effect: the rule of another frame speaks instead        *)
(*                                                                         *)
(* The core state itself is declared by the machine that extends this      *)
(* module, which says how it becomes another: `Becomes' below.             *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets, TLC

CONSTANTS
  Depth,    \* how deep listeners may call
  Broken    \* names of guards that are out of force; {} in the true model

VARIABLES
  stack,    \* the synchronous calls in progress, innermost last
  parked,   \* the routines that wait, in order of parking
  waiting,  \* operations that wait until the log is free
  begun,    \* height of the stack below a waiting operation under way, or -1
  left,     \* what the environment has left of each budget
  label     \* the label of the move that led here; no rule reads it

control == <<stack, parked, waiting, begun, left>>

Intact(guard) == guard \notin Broken

-----------------------------------------------------------------------------
(* What a rule may answer.                                                 *)

(* A refused append leaves the state as it was: L-IN-19.                   *)
Appends(before, after, record, frame, refused) ==
  [verb |-> "append", before |-> before, core |-> after, effect |-> record,
   frame |-> frame, refused |-> refused]
Notifies(c, what, frame) ==
  [verb |-> "notify", core |-> c, effect |-> what, frame |-> frame]
Notes(c, change, frame) ==
  [verb |-> "note", core |-> c, effect |-> change, frame |-> frame]
Parks(c, point, frame) ==
  [verb |-> "park", core |-> c, effect |-> point, frame |-> frame]
Leaves(c, result) ==
  [verb |-> "leave", core |-> c, effect |-> result, frame |-> <<"done">>]
Goes(c, frame) ==
  [verb |-> "go", core |-> c, effect |-> <<>>, frame |-> frame]

Returns(c, value) == Leaves(c, <<"return", value>>)
Raises(c, kind)   == Leaves(c, <<"raise", kind>>)
Nothing == "null"      \* a call that answers nothing answers this

-----------------------------------------------------------------------------
(* The stack and its windows.                                              *)

Activation(frame, window, locked) ==
  [frame |-> frame, window |-> window, locked |-> locked]

Runs  == stack # <<>>
Top   == stack[Len(stack)]
Below == SubSeq(stack, 1, Len(stack) - 1)

(* L-LOG-3: while a record is published, its log takes no other record,    *)
(* however deep the call that tries.                                       *)
LogIsLocked == Runs /\ (Top.locked \/ Top.window = "log")

(* Listeners run only where a window is open; others, when nothing runs.   *)
MayCall == IF Runs THEN Top.window # "closed" ELSE waiting = <<>>

Nested == Len(stack) + Len(waiting)

(* The operations that waited begin in order, one after the other, when    *)
(* the observers of the record are done.                                   *)
MayBegin(unsettled) ==
  /\ waiting # <<>>
  /\ begun = -1
  /\ LogIsLocked => (Top.window = "log" /\ ~Top.locked /\ Top.frame[1] \notin unsettled)

-----------------------------------------------------------------------------
(* Budgets.  A price is a sequence of budget names.                        *)

Free == <<>>

RECURSIVE CanPay(_, _)
CanPay(l, price) ==
  IF price = <<>> THEN TRUE
  ELSE /\ l[Head(price)] > 0
       /\ CanPay([l EXCEPT ![Head(price)] = @ - 1], Tail(price))

RECURSIVE Paid(_, _)
Paid(l, price) ==
  IF price = <<>> THEN l
  ELSE Paid([l EXCEPT ![Head(price)] = @ - 1], Tail(price))

-----------------------------------------------------------------------------
(* Steps of the environment.                                               *)

(* Where a call comes from: whether somebody may call, how deep the calls  *)
(* of a machine beside this one are, and whether that one's record is      *)
(* being published to the same log.                                        *)
Here == [may |-> MayCall, deep |-> 0, busy |-> FALSE]

(* An operation is called; inside a log window it waits if the law says so.*)
CallFrom(place, operation, price, waits) ==
  LET locked == LogIsLocked \/ place.busy
  IN /\ place.may
     /\ Nested + place.deep <= Depth
     /\ CanPay(left, price)
     /\ left' = Paid(left, price)
     /\ IF locked /\ waits
        THEN /\ waiting' = Append(waiting, operation)
             /\ label' = <<"wait">> \o operation
             /\ UNCHANGED stack
        ELSE /\ stack' = Append(stack, Activation(operation, "closed", locked))
             /\ label' = <<"call">> \o operation
             /\ UNCHANGED waiting
     /\ UNCHANGED <<parked, begun>>

Call(operation, price, waits) == CallFrom(Here, operation, price, waits)

(* Await point number i is answered; only when no segment runs.            *)
Answer(i, answer, price) ==
  /\ ~Runs /\ waiting = <<>>
  /\ CanPay(left, price)
  /\ left' = Paid(left, price)
  /\ stack' = <<Activation(Append(parked[i].frame, answer), "closed", FALSE)>>
  /\ parked' = SubSeq(parked, 1, i - 1) \o SubSeq(parked, i + 1, Len(parked))
  /\ label' = <<"answer", parked[i].point, answer>>
  /\ UNCHANGED <<waiting, begun>>

-----------------------------------------------------------------------------
(* Steps of the machine.                                                   *)

(* The first waiting operation begins; the open window is thereby over.    *)
BeginWaiting ==
  /\ stack' = (IF Runs THEN [stack EXCEPT ![Len(stack)].window = "closed"] ELSE stack)
              \o <<Activation(Head(waiting), "closed", FALSE)>>
  /\ waiting' = Tail(waiting)
  /\ begun' = Len(stack)
  /\ label' = <<"begin">> \o Head(waiting)
  /\ UNCHANGED <<parked, left>>

Then(frame, window, locked) == stack' = Append(Below, Activation(frame, window, locked))

(* A waiting operation under way ends when its activation does.            *)
EndsBegun == begun' = IF begun = Len(stack) - 1 THEN -1 ELSE begun

Written(o, price, Becomes(_)) ==
  /\ ~Top.locked
  /\ CanPay(left, price)
  /\ left' = Paid(left, price)
  /\ Becomes(o.core)
  /\ Then(o.frame, "log", FALSE)
  /\ label' = <<"append">> \o o.effect
  /\ UNCHANGED <<parked, waiting, begun>>

(* Refused by the lock, or from outside (a veto, data that is not JSON).   *)
Refused(o, Becomes(_)) ==
  /\ IF Top.locked THEN UNCHANGED left
     ELSE left.refusals > 0 /\ left' = [left EXCEPT !.refusals = @ - 1]
  /\ Becomes(o.before)
  /\ Then(o.refused, "closed", Top.locked)
  /\ label' = <<"refuse">> \o o.effect
  /\ UNCHANGED <<parked, waiting, begun>>

Perform(o, price, Becomes(_)) ==
  CASE o.verb = "append" -> Written(o, price, Becomes) \/ Refused(o, Becomes)
    [] o.verb = "notify" ->
         /\ Becomes(o.core)
         /\ Then(o.frame, "live", Top.locked)
         /\ label' = <<"notify">> \o o.effect
         /\ UNCHANGED <<parked, waiting, begun, left>>
    [] o.verb = "note" ->
         /\ Becomes(o.core)
         /\ Then(o.frame, "closed", Top.locked)
         /\ label' = <<"note">> \o o.effect
         /\ UNCHANGED <<parked, waiting, begun, left>>
    [] o.verb = "park" ->
         /\ Becomes(o.core)
         /\ stack' = Below
         /\ parked' = Append(parked, [point |-> o.effect, frame |-> o.frame])
         /\ EndsBegun
         /\ label' = <<"park">> \o o.effect
         /\ UNCHANGED <<waiting, left>>
    [] o.verb = "leave" ->
         /\ Becomes(o.core)
         /\ stack' = Below
         /\ EndsBegun
         /\ label' = <<"leave">> \o o.effect
         /\ UNCHANGED <<parked, waiting, left>>

-----------------------------------------------------------------------------
Start(budgets) ==
  /\ stack = <<>> /\ parked = <<>> /\ waiting = <<>> /\ begun = -1
  /\ left = budgets
  /\ label = <<>>

(* Nothing runs and nothing waits: a run may stop here.                    *)
Quiet == stack = <<>> /\ parked = <<>> /\ waiting = <<>>
=============================================================================
