----------------------------- MODULE InboxWorld -----------------------------
(***************************************************************************)
(* The inbox alone, within a bound: every mutation, every coordinate, and  *)
(* claims by an imagined driver (`take').                                  *)
(***************************************************************************)
EXTENDS Inbox, Laws

Targets == {"next-step", "next-turn"}
Starts  == {NaN, MinusInfinity, Whole(-2), Whole(-1), <<"finite", -1>>, Zero, <<"finite", 3>>, Infinity}
Counts  == {NaN, Whole(-1), Zero, One, <<"finite", 3>>, Infinity}

NextMessage == Bound.budgets["messages"] - left["messages"] + 1

(* The claim as a call of its own, for turn `turn'.                        *)
Rule(c, f) ==
  IF f[1] = "take" THEN Claim(c, f[2], <<"taken">>, <<"raise", "refused">>)
  ELSE IF f[1] = "taken" THEN Returns(c, f[2])
  ELSE InboxRule(c, f, 1)

RECURSIVE Spoken(_, _)
Spoken(c, f) == LET o == Rule(c, f) IN IF o.verb = "go" THEN Spoken(o.core, o.frame) ELSE o

Messages1 == <<"messages">>
Edits1    == <<"edits">>

AppendMessage(target) ==
  Call(<<"splice", target, Whole(Len(Pending(core, target))), Zero, <<NextMessage>>>>, Messages1, FALSE)
PrependMessage(target) ==
  Call(<<"splice", target, Zero, Zero, <<NextMessage>>>>, Messages1, FALSE)
ExchangeLast(target) ==
  Call(<<"splice", target, Whole(-1), One, <<NextMessage, NextMessage + 1>>>>, <<"messages", "messages">>, FALSE)
InsertTwice(target) ==
  Call(<<"splice", target, Zero, Zero, <<NextMessage, NextMessage>>>>, Edits1, FALSE)
InsertPending(target, message) ==
  Call(<<"splice", target, Zero, Zero, <<message>>>>, Edits1, FALSE)
ExchangeFirst(target, message) ==
  Call(<<"splice", target, Zero, One, <<message>>>>, Edits1, FALSE)
OddSplice(target, start, count) ==
  Call(<<"splice", target, start, count, <<>>>>, Edits1, FALSE)
Take(target) == Call(<<"take", target, 1>>, <<"takes">>, FALSE)
RemoveMessage(message) == Call(<<"remove", message>>, Edits1, FALSE)
ReplaceMessage(message, new, price) == Call(<<"replace", message, new>>, price, FALSE)
ClearInbox == Call(<<"clear_inbox">>, Edits1, FALSE)

Step == Runs /\ Perform(Spoken(core, Top.frame), Free)

AnyPending == Range(core.next_turn) \cup Range(core.next_step)
InOrder == core.next_turn \o core.next_step

Next ==
  \/ Step
  \/ \E target \in Targets :
       \/ AppendMessage(target)
       \/ PrependMessage(target)
       \/ ExchangeLast(target)
       \/ InsertTwice(target)
       \/ Take(target)
       \/ \E message \in AnyPending : InsertPending(target, message) \/ ExchangeFirst(target, message)
       \/ \E start \in Starts, count \in Counts : OddSplice(target, start, count)
  \/ \E message \in AnyPending \cup {NextMessage} :
       \/ RemoveMessage(message)
       \/ ReplaceMessage(message, message, Edits1)
       \/ ReplaceMessage(message, NextMessage, <<"edits", "messages">>)
  \/ \E i \in 2..Len(InOrder) : ReplaceMessage(InOrder[1], InOrder[i], Edits1)
  \/ ClearInbox

Init == Start(EmptyInbox)
Spec == Init /\ [][Next]_vars

-----------------------------------------------------------------------------
(* What must hold.                                                         *)

(* LI-9: ids of both lists together are pairwise distinct.                 *)
IdsAreDistinct == Distinct(core.next_turn \o core.next_step)

(* LI-10: a list changes only behind its own record.                       *)
Waits(f) == f[1] = "project"
OnlyRecordsChangeLists ==
  [][core' # core => \/ event'[1] = "append" /\ Law.observers_see_splice_done
                     \/ Runs /\ Waits(Top.frame)]_vars
=============================================================================
