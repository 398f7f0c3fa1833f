-------------------------------- MODULE Inbox --------------------------------
(***************************************************************************)
(* The two pending lists of an agent (agent-loop section 6).               *)
(*                                                                         *)
(* c.nextStep   everything in it is taken at the next step boundary    *)
(* c.nextTurn   one message feeds one turn                             *)
(*                                                                         *)
(* Every mutation is one splice of one list.  Its record is published      *)
(* BEFORE the list changes (L-IN-8, L-IN-9), so a splice is a chain of     *)
(* micro-steps: record, discarded..., inserted..., and then whatever the   *)
(* caller wanted, which is the frame `then'.                               *)
(***************************************************************************)
EXTENDS Kernel

CONSTANTS
  ObserversSeeSpliceDone,  \* law: observers of a record see the lists after the change (L-IN-9, VD-14)
  MinusZeroIsRefused       \* law: a start in (-1, 0) is refused, being negative zero (L-IN-5, RC-05)

EmptyInbox == [nextStep |-> <<>>, nextTurn |-> <<>>]

Pending(c, target) == IF target = "next-step" THEN c.nextStep ELSE c.nextTurn
WithPending(c, target, list) ==
  IF target = "next-step" THEN [c EXCEPT !.nextStep = list]
                          ELSE [c EXCEPT !.nextTurn = list]
Other(target) == IF target = "next-step" THEN "next-turn" ELSE "next-step"

HasPending(c) == c.nextStep # <<>> \/ c.nextTurn # <<>>

Range(list) == {list[i] : i \in 1..Len(list)}
IsIn(list, message) == message \in Range(list)
PositionOf(list, message) == CHOOSE i \in 1..Len(list) : list[i] = message
Distinct(list) == Cardinality(Range(list)) = Len(list)

-----------------------------------------------------------------------------
(* Coordinates.  TLC has no fractions, infinities or NaN, so a coordinate  *)
(* is its text, and this table has what truncation toward zero makes of    *)
(* the texts that are not whole numbers.  Infinite is more than any list.  *)

Infinite == 1000
Truncated ==
  "NaN" :> 0 @@ "Infinity" :> Infinite @@ "-Infinity" :> -Infinite @@
  "-2" :> -2 @@ "-1" :> -1 @@ "-0.5" :> 0 @@ "0" :> 0 @@ "1" :> 1 @@ "1.5" :> 1 @@
  "2" :> 2 @@ "3" :> 3 @@ "4" :> 4

Max(a, b) == IF a > b THEN a ELSE b
Min(a, b) == IF a < b THEN a ELSE b

(* L-IN-4: from the end when below zero; never beyond the list.            *)
StartIn(length, whole) == IF whole < 0 THEN Max(length + whole, 0) ELSE Min(whole, length)

(* L-IN-4: the count is clamped to what there is behind the start.         *)
CountIn(room, whole) == Min(Max(whole, 0), room)

(* The list after a splice; positions count from 0.                        *)
Spliced(list, start, count, inserted) ==
  SubSeq(list, 1, start) \o inserted \o SubSeq(list, start + count + 1, Len(list))

(* L-IN-6, L-IN-7: the ids of both lists together stay unique.             *)
StaysUnique(c, target, after) ==
  Intact("unique ids") => Distinct(after \o Pending(c, Other(target)))

-----------------------------------------------------------------------------
(* One mutation of one list.                                               *)

(* L-IN-3: the fields of the record.  A removal by anything but a claim is *)
(* `canceled'.                                                             *)
Record(target, start, count, inserted, outcome) ==
  <<"agent/inbox/spliced", target, start, count, inserted, outcome>>

(* L-IN-2, L-IN-8: one record when anything changes, else none.  Observers *)
(* see the lists before the change, or after it (L-IN-9, VD-14).           *)
Mutate(c, target, start, count, inserted, outcome, then, refused) ==
  LET list    == Pending(c, target)
      removed == SubSeq(list, start + 1, start + count)
      changed == WithPending(c, target, Spliced(list, start, count, inserted))
      told    == IF outcome = "canceled" THEN removed ELSE <<>>
      tell    == <<"tell discarded", told, inserted, then>>
  IN IF removed = <<>> /\ inserted = <<>> THEN Goes(c, then)
     ELSE IF ObserversSeeSpliceDone
     THEN Appends(c, changed, Record(target, start, count, inserted, outcome), tell, refused)
     ELSE Appends(c, c, Record(target, start, count, inserted, outcome),
                  <<"project", target, start, count, inserted, tell>>, refused)

(* The list follows its record, before anything else happens.              *)
Project(c, target, start, count, inserted, then) ==
  Goes(WithPending(c, target, Spliced(Pending(c, target), start, count, inserted)), then)

(* L-IN-8: discarded per removed message in list order, then inserted.     *)
TellDiscarded(c, removed, inserted, then) ==
  IF removed = <<>> THEN Goes(c, <<"tell inserted", inserted, then>>)
  ELSE Notifies(c, <<"agent/inbox/discarded", Head(removed)>>,
                <<"tell discarded", Tail(removed), inserted, then>>)

TellInserted(c, inserted, then) ==
  IF inserted = <<>> THEN Goes(c, then)
  ELSE Notifies(c, <<"agent/inbox/inserted", Head(inserted)>>,
                <<"tell inserted", Tail(inserted), then>>)

-----------------------------------------------------------------------------
(* The mutations that anybody may call (L-IN-1).                           *)

(* L-IN-4 to L-IN-7: start and count are truncated by now; minusZero tells *)
(* that the start was in (-1, 0), which truncates to negative zero.  The   *)
(* id test comes before any record; a coordinate that the log cannot hold  *)
(* shows only where a record would be written.                             *)
Splice(c, target, start, count, minusZero, inserted) ==
  LET list  == Pending(c, target)
      from  == StartIn(Len(list), start)
      many  == CountIn(Len(list) - from, count)
      after == Spliced(list, from, many, inserted)
      removed == SubSeq(list, from + 1, from + many)
  IN IF many = 0 /\ inserted = <<>> THEN Returns(c, <<>>)
     ELSE IF ~StaysUnique(c, target, after) THEN Raises(c, "duplicate")
     ELSE IF MinusZeroIsRefused /\ minusZero THEN Raises(c, "not-json")
     ELSE Mutate(c, target, from, many, inserted, IF many > 0 THEN "canceled" ELSE "",
                 <<"return", removed>>, <<"raise", "refused">>)

(* L-IN-10, L-IN-11: next-turn is searched before next-step.               *)
Holder(c, message) ==
  CASE IsIn(c.nextTurn, message) -> "next-turn"
    [] IsIn(c.nextStep, message) -> "next-step"
    [] OTHER -> "neither"

Remove(c, message) ==
  LET target == Holder(c, message)
  IN IF target = "neither" THEN Returns(c, FALSE)
     ELSE Mutate(c, target, PositionOf(Pending(c, target), message) - 1, 1, <<>>, "canceled",
                 <<"return", TRUE>>, <<"raise", "refused">>)

Replace(c, message, new) ==
  LET target == Holder(c, message)
      start  == PositionOf(Pending(c, target), message) - 1
  IN IF target = "neither" THEN Returns(c, FALSE)
     ELSE IF ~StaysUnique(c, target, Spliced(Pending(c, target), start, 1, <<new>>))
     THEN Raises(c, "duplicate")
     ELSE Mutate(c, target, start, 1, <<new>>, "canceled",
                 <<"return", TRUE>>, <<"raise", "refused">>)

(* L-IN-12: next-step first, then next-turn as it is by then.              *)
Clear(c, then) ==
  Mutate(c, "next-step", 0, Len(c.nextStep), <<>>, "canceled",
         <<"clear turns", then>>, <<"raise", "refused">>)

ClearTurns(c, then) ==
  Mutate(c, "next-turn", 0, Len(c.nextTurn), <<>>, "canceled",
         then, <<"raise", "refused">>)

-----------------------------------------------------------------------------
(* L-IN-13: the claim, by the driver only.                                 *)

(* (a) everything of next-step.                                            *)
Claim(c, target, then, refused) ==
  Mutate(c, "next-step", 0, Len(c.nextStep), <<>>, "",
         <<"claim prompt", target, c.nextStep, then, refused>>, refused)

(* (b) the first of next-turn, for the first proposal of a turn only.      *)
(* L-IN-14: when (b) is refused after (a), the batch of (a) is gone.       *)
ClaimPrompt(c, target, steps, then, refused) ==
  LET many == IF target = "next-turn"
              THEN Min(IF Intact("one prompt") THEN 1 ELSE 2, Len(c.nextTurn)) ELSE 0
      batch == steps \o SubSeq(c.nextTurn, 1, many)
  IN Mutate(c, "next-turn", 0, many, <<>>, "", <<"tell claimed", batch, batch, then>>, refused)

(* (c) claimed once per message, after both records.                       *)
TellClaimed(c, turn, rest, batch, then) ==
  IF rest = <<>> THEN Goes(c, Append(then, batch))
  ELSE Notifies(c, <<"agent/inbox/claimed", Head(rest), turn>>,
                <<"tell claimed", Tail(rest), batch, then>>)

-----------------------------------------------------------------------------
(* L-IN-16: a new driver replays the records of the log, in their order    *)
(* and without telling anybody.  L-IN-17: it refuses one that does not fit *)
(* the lists that the records before it have made.                         *)

CanReplay(lists, target, start, count, inserted) ==
  LET list == Pending(lists, target)
  IN /\ start + count <= Len(list)
     /\ Distinct(Spliced(list, start, count, inserted) \o Pending(lists, Other(target)))

Replayed(lists, target, start, count, inserted) ==
  WithPending(lists, target, Spliced(Pending(lists, target), start, count, inserted))

-----------------------------------------------------------------------------
(* The rules of an inbox by frame; `turn' is the number of the turn that   *)
(* claims.                                                                 *)

InboxFrames ==
  {"remove", "replace", "clear_inbox", "project", "tell discarded", "tell inserted",
   "clear turns", "claim prompt", "tell claimed", "return", "raise"}

InboxRule(c, f, turn) ==
  CASE f[1] = "remove"         -> Remove(c, f[2])
    [] f[1] = "replace"        -> Replace(c, f[2], f[3])
    [] f[1] = "clear_inbox"    -> Clear(c, <<"return", Nothing>>)
    [] f[1] = "project"        -> Project(c, f[2], f[3], f[4], f[5], f[6])
    [] f[1] = "tell discarded" -> TellDiscarded(c, f[2], f[3], f[4])
    [] f[1] = "tell inserted"  -> TellInserted(c, f[2], f[3])
    [] f[1] = "clear turns"    -> ClearTurns(c, f[2])
    [] f[1] = "claim prompt"   -> ClaimPrompt(c, f[2], f[3], f[4], f[5])
    [] f[1] = "tell claimed"   -> TellClaimed(c, turn, f[2], f[3], f[4])
    [] f[1] = "return"         -> Returns(c, f[2])
    [] f[1] = "raise"          -> Raises(c, f[2])

(* Behind these frames the lists do not agree with the log yet.            *)
Unsettled == {"project"}
=============================================================================
