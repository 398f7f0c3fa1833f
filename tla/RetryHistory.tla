---------------------------- MODULE RetryHistory ----------------------------
(***************************************************************************)
(* The retries with a bystander who hears every label and remembers the    *)
(* records.  Claims INV-R1 to INV-R11 of llm-and-tools.md 16.2, as far as  *)
(* they are about the retries and not about the attempt (INV-R6 to INV-R8) *)
(* or about compaction (INV-R11).                                          *)
(***************************************************************************)
EXTENDS Retry

VARIABLE past

remembered == <<view, past>>
everything == <<vars, past>>

Blank == [
    records   |-> <<>>,     \* <<name, chain, retry, delay, place, provider, policy>>
    failure   |-> <<>>,     \* the call of the recovery under way
    timers    |-> 0,        \* timers that run
    cut       |-> 0,        \* timers that were stopped
    dead      |-> FALSE,    \* the turn of the recovery is cancelled
    ended     |-> FALSE,    \* the plugin has ended
    said      |-> "",       \* what the listeners behind said
    granted   |-> FALSE]    \* the last recovery led to another attempt

FailureOf(l) ==
    [place |-> <<l[3], l[4]>>, provider |-> l[5], policy |-> l[6], code |-> l[7], advised |-> l[8], cancelled |-> l[10]]

Hears(p, l) ==
    CASE l[1] = "call" /\ l[2] = "recover" ->
            IF p.failure # <<>> THEN p
            ELSE [p EXCEPT !.failure = FailureOf(l), !.dead = l[10], !.said = "", !.granted = FALSE]
      [] l[1] = "call" /\ l[2] = "abort" -> [p EXCEPT !.dead = TRUE]
      [] l[1] = "call" /\ l[2] = "dispose" -> [p EXCEPT !.ended = TRUE]
      [] l[1] = "append" ->
            [p EXCEPT !.records = Append(@, <<l[2], l[3], l[4], IF Len(l) = 5 THEN l[5] ELSE 0,
                                             p.failure.place, p.failure.provider, p.failure.policy>>)]
      [] l[1] = "park" /\ l[2] = "wait" -> [p EXCEPT !.timers = @ + 1]
      [] l[1] = "note" /\ l[2] = "cut" -> [p EXCEPT !.cut = p.timers]
      [] l[1] = "answer" /\ l[2][1] = "wait" -> [p EXCEPT !.timers = @ - 1, !.cut = 0]
      [] l[1] = "answer" /\ l[2][1] = "downstream" -> [p EXCEPT !.said = l[3][1]]
      [] l[1] = "leave" /\ l[2] = "give" ->
            [p EXCEPT !.failure = <<>>, !.dead = FALSE,
                      !.granted = ~p.dead /\ (l[3] = "retry" \/ (l[3] = "downstream" /\ p.said = "retry"))]
      [] OTHER -> p

HistoryInit == Init /\ past = Blank
HistoryNext == Next /\ past' = Hears(past, label')
HistorySpec == HistoryInit /\ [][HistoryNext]_everything

(***************************************************************************)
(* The records.                                                            *)
(***************************************************************************)

records == past.records
IsSchedule(i) == records[i][1] = "llm/retry"
IsStart(i) == records[i][1] = "llm/retry-started"
KeyOf(i) == <<records[i][5], records[i][6], records[i][7]>>
SchedulesUpTo(i, key) == Cardinality({j \in 1..i : IsSchedule(j) /\ KeyOf(j) = key})

\* INV-R1  Retries run 1, 2, 3, ... per (turn, step, provider, policy); one chain each, shared with nobody.
RetriesCount == \A i \in DOMAIN records : IsSchedule(i) => records[i][3] = SchedulesUpTo(i, KeyOf(i))
ChainsAreApart ==
    \A i, j \in DOMAIN records : IsSchedule(i) /\ IsSchedule(j) => (records[i][2] = records[j][2]) = (KeyOf(i) = KeyOf(j))

\* INV-R2
BudgetIsKept == \A i \in DOMAIN records : IsSchedule(i) /\ records[i][7][1] = "normal" => records[i][3] <= records[i][7][2]

\* INV-R3  Each start belongs to one schedule, the last one, and is its only start.
StartsMatch ==
    \A i \in DOMAIN records : IsStart(i) =>
        i > 1 /\ IsSchedule(i - 1) /\ records[i - 1][2] = records[i][2] /\ records[i - 1][3] = records[i][3]
            /\ records[i - 1][5] = records[i][5]

\* INV-R4, M-620  The schedule is there before its wait, and nothing waits without one.
WaitsAreRecorded ==
    [][label'[1] = "park" /\ label'[2] = "wait" =>
        records # <<>> /\ IsSchedule(Len(records)) /\ records[Len(records)][4] = label'[3]]_remembered

\* INV-R5
DelaysAreBounded == \A i \in DOMAIN records : IsSchedule(i) => records[i][4] >= 0 /\ records[i][4] <= records[i][7][5]

\* M-602  A normal policy retries what it names, and an absent one nothing.
OnlyWhatIsNamed ==
    [][label'[1] = "append" /\ label'[2] = "llm/retry" =>
        /\ past.failure.policy # <<>>
        /\ past.failure.policy[1] = "normal" => \E i \in DOMAIN past.failure.policy[3] : past.failure.policy[3][i] = past.failure.code]_remembered

\* INV-R9, M-611, M-622  Behind a cancel that somebody could see nothing is scheduled, and no wait begins.
CancelIsSeen ==
    [][past.dead \/ past.ended =>
        /\ ~(label'[1] = "append" /\ label'[2] = "llm/retry")
        /\ ~(label'[1] = "park" /\ label'[2] = "wait")]_remembered

\* RACE-16  Under the law of the seed the start is not recorded either.
TieGoesToTheCancel ==
    [][past.dead \/ past.ended => ~(label'[1] = "append" /\ label'[2] = "llm/retry-started")]_remembered

\* INV-R10  At most one timer, only while a recovery is under way, and stopped when the turn or the plugin ends.
OneTimer == past.timers <= 1 /\ (past.timers = 1 => past.failure # <<>>)
TimersAreStopped ==
    [][label'[1] = "leave" /\ label'[2] = "return" => past.timers = past.cut]_remembered

\* M-621, RACE-17  Whoever is cut short gives nothing, so that the original failure stands.
CutGivesNothing ==
    [][label'[1] = "leave" /\ label'[2] = "give" /\ (past.dead \/ past.ended) =>
        label'[3] # "retry" \/ (records # <<>> /\ IsStart(Len(records)))]_remembered

\* M-621  The end of the plugin is drained exactly once, when no recovery is under way.
DrainsWhenIdle == [][label'[1] = "note" /\ label'[2] = "drained" => past.ended /\ past.timers = 0]_remembered

(***************************************************************************)
(* If the listeners behind and the timers settle, a recovery ends.         *)
(***************************************************************************)

\* Answers, returns and effects are fair; nobody owes another failure.
Settles ==
    /\ \/ (Steps0 /\ Recoveries) \/ Visits
       \/ \E said \in {"retry", "none", "throws"} : AnswerDownstream(said)
       \/ AnswerWait("elapsed")
    /\ past' = Hears(past, label')
Fair == HistorySpec /\ WF_everything(Settles)
RecoveryEnds == (past.failure # <<>>) ~> (past.failure = <<>>)

\* RACE-18  When the listeners behind never settle, nothing ends: it must fail.
Hanging ==
    HistorySpec /\ WF_everything(((Steps0 /\ Recoveries) \/ Visits \/ AnswerWait("elapsed")) /\ past' = Hears(past, label'))

(* What must be reachable. *)
NeverTwice == ~\E i \in DOMAIN records : records[i][3] = 2
NeverTwoChains == ~\E i, j \in DOMAIN records : records[i][5] = records[j][5] /\ records[i][2] # records[j][2]
NeverResumed ==   \* M-612: switching back goes on with the old chain
    ~\E i, j, k \in DOMAIN records :
        i < j /\ j < k /\ IsSchedule(i) /\ IsSchedule(j) /\ IsSchedule(k)
            /\ records[i][2] = records[k][2] /\ records[j][2] # records[i][2]
NeverCut == past.cut = 0
NeverVerbatim == ~\E i \in DOMAIN records : records[i][4] = 2 /\ records[i][7][1] = "normal" /\ records[i][7][6] = 1
NeverOverruled == ~(frame = <<"warned">>)
=============================================================================
