-------------------------------- MODULE Toy --------------------------------
(* A queue: sent to under two names while the budget lasts, taken from in   *)
(* order, and cleared.  It exists to test the machinery around real models. *)
EXTENDS Naturals, Sequences

CONSTANTS
  Sends,   \* how many messages may be sent
  Eager,   \* a law: a cleared queue forgets how many were taken
  Broken   \* names of guards that are out of force

VARIABLES queue, taken, left, label

vars == <<queue, taken, left, label>>
view == <<queue, taken, left>>

Guard(name, condition) == name \in Broken \/ condition

Init == queue = <<>> /\ taken = 0 /\ left = [sends |-> Sends] /\ label = <<>>

Send(name) ==
  /\ left.sends > 0
  /\ Guard("full", Len(queue) < 2)
  /\ left' = [left EXCEPT !.sends = @ - 1]
  /\ queue' = Append(queue, 1 + Sends - left.sends)
  /\ label' = <<"call", "send", 1 + Sends - left.sends, name, TRUE>>
  /\ UNCHANGED taken

Take ==
  /\ queue # <<>>
  /\ queue' = IF "order" \in Broken THEN SubSeq(queue, 1, Len(queue) - 1) ELSE Tail(queue)
  /\ taken' = IF "count" \in Broken THEN taken ELSE taken + 1
  /\ label' = <<"append", "taken", Head(queue)>>
  /\ UNCHANGED left

Clear ==
  /\ queue # <<>>
  /\ queue' = <<>>
  /\ taken' = IF Eager THEN 0 ELSE taken
  /\ label' = <<"note", "cleared", "null">>
  /\ UNCHANGED left

Next == (\E name \in {"a", "b"} : Send(name)) \/ Take \/ (Guard("never", TRUE) /\ Clear)

Spec == Init /\ [][Next]_vars
FairSpec == Spec /\ WF_<<queue, taken, left>>(Take)

AtMostTwo == Len(queue) <= 2
NothingTaken == taken = 0
NeverThree == taken < 3
NeverFour == taken < 4
LeftOnlyFalls == [][left'.sends <= left.sends]_vars
TakenOnlyGrows == [][taken' >= taken]_vars
EmptiedAtLast == queue # <<>> ~> queue = <<>>
=============================================================================
