------------------------------ MODULE MCInbox ------------------------------
(***************************************************************************)
(* The inbox alone, within a bound: every mutation, every coordinate, and  *)
(* claims by an imagined driver (`take').                                  *)
(***************************************************************************)
EXTENDS Inbox

CONSTANTS Messages, Edits, Takes, Refusals

VARIABLES nextStep, nextTurn

core == [nextStep |-> nextStep, nextTurn |-> nextTurn]
Becomes(c) == nextStep' = c.nextStep /\ nextTurn' = c.nextTurn
Same == UNCHANGED <<nextStep, nextTurn>>

view == <<nextStep, nextTurn, control>>
vars == <<view, label>>

Targets == {"next-step", "next-turn"}
Starts  == {"NaN", "-Infinity", "-2", "-1", "-0.5", "0", "1.5", "Infinity"}
Counts  == {"NaN", "-1", "0", "1", "1.5", "Infinity"}

NextMessage == Messages - left.messages + 1

(* The claim as a call of its own, for turn `turn'.                        *)
Rule(c, f) ==
  IF f[1] = "splice" THEN Splice(c, f[2], Truncated[f[3]], Truncated[f[4]], f[3] = "-0.5", f[5])
  ELSE IF f[1] = "take" THEN Claim(c, f[2], <<"taken">>, <<"raise", "refused">>)
  ELSE IF f[1] = "taken" THEN Returns(c, f[2])
  ELSE InboxRule(c, f, 1)

RECURSIVE Spoken(_, _)
Spoken(c, f) == LET o == Rule(c, f) IN IF o.verb = "go" THEN Spoken(o.core, o.frame) ELSE o

Messages1 == <<"messages">>
Edits1    == <<"edits">>

AppendMessage(target) ==
  Call(<<"splice", target, ToString(Len(Pending(core, target))), "0", <<NextMessage>>>>, Messages1, FALSE)
PrependMessage(target) ==
  Call(<<"splice", target, "0", "0", <<NextMessage>>>>, Messages1, FALSE)
ExchangeLast(target) ==
  Call(<<"splice", target, "-1", "1", <<NextMessage, NextMessage + 1>>>>, <<"messages", "messages">>, FALSE)
InsertTwice(target) ==
  Call(<<"splice", target, "0", "0", <<NextMessage, NextMessage>>>>, Edits1, FALSE)
InsertPending(target, message) ==
  Call(<<"splice", target, "0", "0", <<message>>>>, Edits1, FALSE)
ExchangeFirst(target, message) ==
  Call(<<"splice", target, "0", "1", <<message>>>>, Edits1, FALSE)
OddSplice(target, start, count) ==
  Call(<<"splice", target, start, count, <<>>>>, Edits1, FALSE)
Take(target) == Call(<<"take", target, 1>>, <<"takes">>, FALSE)
RemoveMessage(message) == Call(<<"remove", message>>, Edits1, FALSE)
ReplaceMessage(message, new, price) == Call(<<"replace", message, new>>, price, FALSE)
ClearInbox == Call(<<"clear_inbox">>, Edits1, FALSE)

Step == Runs /\ Perform(Spoken(core, Top.frame), Free, Becomes)

AnyPending == Range(core.nextTurn) \cup Range(core.nextStep)
InOrder == core.nextTurn \o core.nextStep

(* The budget is asked first, so that TLC need not try what nobody can pay.*)
Sends(target) == AppendMessage(target) \/ PrependMessage(target) \/ ExchangeLast(target)

EditsOf(target) ==
  \/ InsertTwice(target)
  \/ \E message \in AnyPending : InsertPending(target, message) \/ ExchangeFirst(target, message)
  \/ \E start \in Starts, count \in Counts : OddSplice(target, start, count)

EditsByName ==
  \/ \E message \in AnyPending \cup {NextMessage} :
       \/ RemoveMessage(message)
       \/ ReplaceMessage(message, message, Edits1)
       \/ ReplaceMessage(message, NextMessage, <<"edits", "messages">>)
  \/ \E i \in 2..Len(InOrder) : ReplaceMessage(InOrder[1], InOrder[i], Edits1)
  \/ ClearInbox

Environment ==
  \/ left.messages > 0 /\ \E target \in Targets : Sends(target)
  \/ \E target \in Targets : Take(target)
  \/ left.edits > 0 /\ ((\E target \in Targets : EditsOf(target)) \/ EditsByName)

Next == Step \/ (Environment /\ Same)

Init ==
  /\ Start([messages |-> Messages, edits |-> Edits, takes |-> Takes, refusals |-> Refusals])
  /\ nextStep = <<>> /\ nextTurn = <<>>
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold.                                                         *)

(* LI-9: ids of both lists together are pairwise distinct.                 *)
IdsAreDistinct == Distinct(core.nextTurn \o core.nextStep)

(* LI-10: a list changes only behind its own record.                       *)
Waits(f) == f[1] = "project"
OnlyRecordsChangeLists ==
  [][core' # core => \/ label'[1] = "append" /\ ObserversSeeSpliceDone
                     \/ Runs /\ Waits(Top.frame)]_vars

(* L-IN-14, reachable: next-step is gone, next-turn is not, nobody heard.  *)
HalfClaim ==
  ~(/\ label # <<>> /\ label[1] = "refuse" /\ label[3] = "next-turn" /\ label[5] = 1 /\ label[7] = ""
    /\ nextTurn # <<>> /\ nextStep = <<>> /\ left.messages = 0)
=============================================================================
