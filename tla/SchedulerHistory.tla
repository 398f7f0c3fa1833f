-------------------------- MODULE SchedulerHistory --------------------------
(***************************************************************************)
(* The scheduler with a bystander who hears every label and remembers.     *)
(* The invariants INV-S1 to INV-S17 of llm-and-tools.md 16.1 are claims    *)
(* about what he heard; none of them reads a field of the lane.            *)
(***************************************************************************)
EXTENDS Scheduler

VARIABLE past

remembered == <<view, past>>
everything == <<vars, past>>

(***************************************************************************)
(* What he remembers.                                                      *)
(***************************************************************************)

Blank == [
    log       |-> <<>>,     \* the records: <<"tool/call", call>>, <<"tool/result", call, outcome>>
    early     |-> FALSE,    \* the signal was aborted before the batch
    dead      |-> FALSE,    \* the signal is aborted
    asked     |-> <<0, "none">>, \* the last classification: <<call, answer>>
    size      |-> 0,        \* the cap that was read last
    alone     |-> {},       \* calls that were started as an exclusive group
    stage     |-> {},       \* calls in a policy stage
    prepared  |-> {},       \* calls that have been through preparation
    finalised |-> {},       \* calls that have been through post-execute
    final     |-> {},       \* calls with a final result
    open      |-> {},       \* bodies that have not settled
    inside    |-> {},       \* calls whose body was entered
    noticed   |-> {},       \* calls with a tools/result
    marked    |-> {},       \* calls whose post-execute left the mark of a conclusion
    failure   |-> <<>>]     \* the first failure of the machinery

Hears(p, l) ==
    CASE l[1] = "abort" -> [p EXCEPT !.dead = TRUE]
      [] l[1] = "append" /\ l[2] = "tool/call" ->
            [p EXCEPT !.log = Append(@, <<l[2], l[3]>>),
                      !.alone = IF p.asked = <<l[3], "exclusive">> THEN @ \cup {l[3]} ELSE @]
      [] l[1] = "append" /\ l[2] = "tool/result" -> [p EXCEPT !.log = Append(@, <<l[2], l[3], l[4]>>)]
      [] l[1] = "refuse" -> [p EXCEPT !.failure = IF @ = <<>> THEN <<l[2], l[3]>> ELSE @]
      [] l[1] = "notify" /\ l[2] = "tools/result" -> [p EXCEPT !.noticed = @ \cup {l[3]}]
      [] l[1] = "park" /\ l[2] = "body" -> [p EXCEPT !.open = @ \cup {l[3]}]
      [] l[1] = "park" /\ l[2] \in {"prepare", "finalise"} -> [p EXCEPT !.stage = @ \cup {l[3]}]
      [] l[1] = "lose" -> [p EXCEPT !.failure = IF @ = <<>> THEN <<"execute", l[2]>> ELSE @]
      [] l[1] = "enter" /\ l[3] -> [p EXCEPT !.inside = @ \cup {l[2]}]
      [] l[1] = "answer" /\ l[2] = "cap" ->
            IF Len(l) = 4 THEN [p EXCEPT !.size = l[4]]
            ELSE [p EXCEPT !.failure = IF @ = <<>> THEN <<"cap", p.asked[1]>> ELSE @]
      [] l[1] = "answer" /\ l[2] # "cap" ->
            LET q == IF l[4] \in {"throws", "rejects"}
                     THEN [p EXCEPT !.failure = IF @ = <<>> THEN <<l[2], l[3]>> ELSE @] ELSE p
            IN (CASE l[2] = "classify" -> [q EXCEPT !.asked = <<l[3], l[4]>>]
                  [] l[2] = "prepare"  -> [q EXCEPT !.stage = @ \ {l[3]}, !.prepared = @ \cup {l[3]},
                                                    !.final = IF l[4] = "final-result" THEN @ \cup {l[3]} ELSE @]
                  [] l[2] = "body"     -> [q EXCEPT !.open = @ \ {l[3]},
                                                    !.final = IF l[4] = "final-result" THEN @ \cup {l[3]} ELSE @]
                  [] l[2] = "finalise" -> [q EXCEPT !.stage = @ \ {l[3]}, !.finalised = @ \cup {l[3]},
                                                    !.marked = IF l[4] = "accept" /\ l[5] THEN @ \cup {l[3]} ELSE @]
                  [] l[2] = "contexts" -> q)
      [] OTHER -> p

HistoryInit == Init /\ past = [Blank EXCEPT !.early = aborted, !.dead = aborted]
HistoryNext == Next /\ past' = Hears(past, label')
HistorySpec == HistoryInit /\ [][HistoryNext]_everything

(***************************************************************************)
(* INV-S1 to INV-S4, INV-S10: the records.                                 *)
(***************************************************************************)

log == past.log
IsCall(i) == log[i][1] = "tool/call"
IsResult(i) == log[i][1] = "tool/result"
CallsInLog == SelectSeq(log, LAMBDA r : r[1] = "tool/call")
ResultsInLog == SelectSeq(log, LAMBDA r : r[1] = "tool/result")
Synthetic == {"never-started"}
Completing == {"outcome-unknown", "not-started"}

Ends == label'[1] = "leave" /\ label'[2] \in {"concluded", "continue", "throws"}
EndsWell == Ends /\ label'[2] # "throws"

\* INV-S1  Without a failure each call has one tool/call and one tool/result.
EveryCallIsAnswered ==
    [][EndsWell => /\ Len(CallsInLog) = Calls /\ Len(ResultsInLog) = Calls
                   /\ \A c \in Call : CallsInLog[c][2] = c /\ ResultsInLog[c][2] = c
                   /\ \A c \in Call : ResultsInLog[c][3] \notin Completing]_remembered

\* INV-S2, INV-S3
CallsInModelOrder == \A k \in DOMAIN CallsInLog : CallsInLog[k][2] = k
ResultsInModelOrder == \A k \in DOMAIN ResultsInLog : ResultsInLog[k][2] = k

\* INV-S4
ResultsFollowTheirCalls ==
    \A i \in DOMAIN log : IsResult(i) /\ log[i][3] # "not-started" =>
        \E j \in 1..(i - 1) : log[j] = <<"tool/call", log[i][2]>>

\* INV-S10  Synthetic pairs are the end of the batch, and belong to calls that were never prepared.
SyntheticPairsAreLast ==
    \A i \in DOMAIN log : IsResult(i) /\ log[i][3] \in Synthetic =>
        /\ log[i][2] \notin past.prepared \cup past.noticed
        /\ \A j \in (i + 1)..Len(log) : IsResult(j) => log[j][3] \in Synthetic \cup Completing

(***************************************************************************)
(* INV-S5 to INV-S9: barriers, pool, lane, signal, drain.                  *)
(***************************************************************************)

\* INV-S5  What was started alone has every earlier result in front of its call, and its result in front of the next call.
BarriersHold ==
    \A i \in DOMAIN log : IsCall(i) /\ log[i][2] \in past.alone /\ log[i][2] \in past.prepared \cup past.stage =>
        /\ Cardinality({j \in 1..i : IsResult(j)}) = log[i][2] - 1
        /\ \A j \in (i + 1)..Len(log) : IsCall(j) => \E k \in i..j : IsResult(k) /\ log[k][2] = log[i][2]

\* INV-S6
PoolIsBounded == past.open # {} => Cardinality(past.open) <= past.size

\* INV-S7
OneStageAtATime == Cardinality(past.stage) <= 1

\* INV-S8  No body is entered under an aborted signal.
DeadSignalBarsBodies == [][label'[1] = "enter" /\ label'[3] => ~past.dead]_remembered

\* INV-S8, L-TOOL-16  Under a signal that was aborted before the batch there are synthetic pairs only.
NothingStartsLate == past.early => past.stage \cup past.prepared = {}

\* INV-S9
EndWaitsForBodies == [][Ends => past.open = {}]_remembered

(***************************************************************************)
(* INV-S11 to INV-S16: failure, contexts, conclusion, the pipeline.        *)
(***************************************************************************)

\* INV-S11  The first failure is reported; after it nothing starts, and no pair is made up.
FirstFailureIsReported ==
    [][label'[1] = "leave" /\ label'[2] = "throws" => past.failure # <<>> /\ label'[3] = past.failure]_remembered
NothingStartsAfterFailure ==
    [][past.failure # <<>> =>
        /\ ~(label'[1] = "append" /\ label'[2] = "tool/call")
        /\ ~(label'[1] = "notify" /\ label'[2] = "tools/execute")
        /\ ~(label'[1] = "append" /\ label'[2] = "tool/result" /\ label'[4] \in Synthetic)]_remembered

\* INV-S12  Contexts come right behind the result that they belong to.
ContextsFollowTheirResult ==
    [][label'[1] = "park" /\ label'[2] = "contexts" =>
        log # <<>> /\ IsResult(Len(log)) /\ log[Len(log)][2] = label'[3]]_remembered

\* INV-S13  The batch concludes iff a recorded success carries the mark.
ConclusionIsOfASuccess ==
    [][EndsWell => (label'[2] = "concluded") =
        (\E i \in DOMAIN log : IsResult(i) /\ log[i][3] = "success" /\ log[i][2] \in past.marked)]_remembered

\* INV-S14  One tools/result for each call that entered the executor, none for the others.
NoticedOnce == [][label'[1] = "notify" /\ label'[2] = "tools/result" => label'[3] \notin past.noticed]_remembered
NoticedIffPrepared == [][EndsWell => past.noticed = past.prepared]_remembered

\* INV-S15  Preparation and post-execute at most once each, in this order; none behind a final result.
StagesInOrder ==
    [][/\ label'[1] = "park" /\ label'[2] = "prepare" => label'[3] \notin past.prepared
       /\ label'[1] = "park" /\ label'[2] = "finalise" => label'[3] \in past.prepared \ past.finalised]_remembered
FinalResultsAreFinal ==
    [][label'[1] = "park" /\ label'[2] = "finalise" => label'[3] \notin past.final]_remembered

\* INV-S16  `aborted` tells that the body was entered, `aborted-before-dispatch` that it was not.
AbortTellsWhetherEntered ==
    \A i \in DOMAIN log : IsResult(i) =>
        /\ log[i][3] = "aborted" => log[i][2] \in past.inside /\ past.dead
        /\ log[i][3] = "aborted-before-dispatch" => log[i][2] \notin past.inside

(***************************************************************************)
(* INV-S17: if every body and every listener settles, the batch settles.   *)
(***************************************************************************)

Over == frame = Nothing /\ point = Nothing /\ live = {} /\ (next > Calls \/ failure # Nothing \/ done = Calls)

Fair == HistorySpec /\ WF_everything((Lane \/ Surroundings) /\ past' = Hears(past, label'))
BatchSettles == <>(frame = Nothing /\ point = Nothing /\ live = {})

\* The same when bodies need not settle: it must fail.
Careless ==
    HistorySpec /\ WF_everything((Lane \/ (Surroundings /\ ~\E c \in Call : c \in live /\ frame' # frame /\ frame' # Nothing
                                                /\ frame'[1] \in {"settled", "bystander"})) /\ past' = Hears(past, label'))

(***************************************************************************)
(* What must be reachable: each of these is false somewhere.               *)
(***************************************************************************)

NeverOverlap == Cardinality(past.open) < 2
NeverOvertaken == ~\E c \in past.open : \E d \in DOMAIN slots : slots[d].call > c
NeverBarrierBehindPool == ~(\E c \in past.alone : c > 1 /\ 1 \in past.noticed /\ 1 \notin past.alone)
NeverAbortedInside == ~\E i \in DOMAIN log : IsResult(i) /\ log[i][3] = "aborted"
NeverMixed ==
    ~\E i, j \in DOMAIN log : IsResult(i) /\ IsResult(j) /\ log[i][3] = "success" /\ log[j][3] = "never-started"
NeverLate == ~(past.failure # <<>> /\ past.stage # {})
NeverCompleted ==
    ~\E i, j \in DOMAIN log :
        IsResult(i) /\ IsResult(j) /\ log[i][3] = "outcome-unknown" /\ log[j][3] = "not-started"

-----------------------------------------------------------------------------
(* Bounded instances.                                                      *)

Plain == <<<<"accept", FALSE, FALSE>>>>
Marks == <<<<"accept", FALSE, FALSE>>, <<"accept", TRUE, TRUE>>, <<"block", FALSE>>>>
=============================================================================
