-------------------------------- MODULE Tape --------------------------------
(***************************************************************************)
(* The append-only tape: what a pre-step seals, and in which order, inside *)
(* a host with turns, steps, tool results, snapshots, steering,            *)
(* compaction, cancels, crashes and resumes.                               *)
(*                                                                         *)
(* The surface is a sequence of cells, each one message that a request     *)
(* would show.  A cell tells what the policy may know of its node: its     *)
(* name, its kind, the turn that owns it, whether it was written since the *)
(* last turn/end (late), the tool calls it makes or answers, and, for a    *)
(* result, whether a request has shown it and whether it is long enough to *)
(* be folded.                                                              *)
(*                                                                         *)
(* Written from slice-tape.md: TP- sealing, FD- folding, CF- settings,     *)
(* PX- prefix stability, INV- and RE-.                                     *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Turns, Snapshots, Steering, Compactions, Resumes, Cancels, Losses, Reuses, Long, \* how often each may happen
    Keep,                   \* how many of the newest ended turns stay raw (keepRecentTurns)
    Cap,                    \* the step cap, or -1
    CallCount,              \* how many tools the first step of a turn calls
    AnyRange,               \* a compaction may take any stretch; else it takes whole turns
    Late,                   \* the policy is mounted between two turns only (RE-63)
    TapePairsByMultiset,    \* law: every use of a call id needs a result of its own (TP-22)
    Broken                  \* names of guards that are out of force

VARIABLES
    cells,          \* the surface
    largestEnded,   \* L: the largest turn that has ended
    aborted,        \* the turn signal
    warned,         \* warnings of this session instance: <<name of the first node, sorted ids>>
    phase,          \* "idle", "deciding", "sealing", "entered", "streaming", "tools", "answered"
    turn, step,     \* step is 0 while idle
    pending,        \* what joins the surface when the step is entered
    openCalls,      \* call ids without a result
    mounted,        \* the policy is there
    left,           \* what the host may still do
    sealed,         \* the plan of this pre-step has been carried out: it is made once, before its first record (TP-09)
    exposing,       \* the last turn was broken off, so that a new process takes its long results for shown (FD-02)
    label           \* the label of the last move; read by nobody

tape == <<cells, largestEnded, aborted, warned>>
host == <<phase, turn, step, pending, openCalls, mounted, left, sealed, exposing>>
view == <<tape, host>>
vars == <<view, label>>

Guarded(guard) == guard \notin Broken
NoCap == -1

Cell(uid, kind, owner) ==
    [uid |-> uid, kind |-> kind, owner |-> owner, late |-> FALSE,
     calls |-> <<>>, answers |-> <<>>, seen |-> FALSE, long |-> FALSE]

Written(cell) == [cell EXCEPT !.late = TRUE]

Range(sequence) == {sequence[i] : i \in DOMAIN sequence}
Max(numbers) == CHOOSE n \in numbers : \A m \in numbers : m <= n
Min(numbers) == CHOOSE n \in numbers : \A m \in numbers : n <= m

(***************************************************************************)
(* Which nodes may be sealed.                                              *)
(***************************************************************************)

Places == DOMAIN cells
Places0(kind) == {i \in Places : cells[i].kind = kind}

\* TP-14  Everything up to the last entry is frozen, whatever it is.
Frozen == Max({0} \cup Places0("entry"))

\* TP-13  The newest snapshot lives, unless a newer one is about to be appended.
Renewed == \E i \in DOMAIN pending : pending[i].kind = "snapshot"
IsLive(i) == ~Renewed /\ i = Max({0} \cup Places0("snapshot"))

\* TP-11, TP-12, TP-15  Assistant messages and results of ended turns, and dead snapshots; everything else is protected.
Eligible(i) ==
    /\ i > Frozen \/ ~Guarded("frozen prefix")
    /\ cells[i].owner >= 1
    /\ cells[i].owner <= largestEnded - Keep \/ ~Guarded("turn limit")
    /\ \/ cells[i].kind \in {"assistant", "result"} /\ ~cells[i].late
       \/ cells[i].kind = "snapshot" /\ (~IsLive(i) \/ ~Guarded("live snapshot"))
       \/ cells[i].kind = "human" /\ ~Guarded("human text")

\* TP-20, TP-21  A portion: the places from i on, one behind the other, that are eligible and have one owner.
SameportionAt(i, j) == \A k \in i..j : Eligible(k) /\ cells[k].owner = cells[i].owner
BeginsPortion(i) == Eligible(i) /\ (i = 1 \/ ~Eligible(i - 1) \/ cells[i - 1].owner # cells[i].owner)
EndOfPortion(i) == Max({j \in i..Len(cells) : SameportionAt(i, j)})
Portions == {<<i, EndOfPortion(i)>> : i \in {j \in Places : BeginsPortion(j)}}

\* TP-22  How often an id is called, and how often it is answered, in a portion.
Uses(portion, id) ==
    Cardinality({<<i, k>> \in (portion[1]..portion[2]) \X (1..CallCount) :
                    k \in DOMAIN cells[i].calls /\ cells[i].calls[k] = id})
Answers(portion, id) ==
    Cardinality({i \in portion[1]..portion[2] : \E k \in DOMAIN cells[i].answers : cells[i].answers[k] = id})

Ids(portion) == UNION {Range(cells[i].calls) \cup Range(cells[i].answers) : i \in portion[1]..portion[2]}

Unpaired(portion) ==
    {id \in Ids(portion) :
        IF TapePairsByMultiset THEN Uses(portion, id) # Answers(portion, id)
        ELSE (Uses(portion, id) = 0) # (Answers(portion, id) = 0)}

IsBroken(portion) == Unpaired(portion) # {} /\ Guarded("pairing")

\* TP-20, TP-23  A segment: portions without a gap and without a broken one among them, as many as there are.
Whole == {portion \in Portions : ~IsBroken(portion)}
BeginsSegment(portion) == portion \in Whole /\ ~\E before \in Whole : before[2] + 1 = portion[1]
EndOfSegment(first) ==
    Min({portion[2] : portion \in {one \in Whole : one[1] >= first /\ ~\E after \in Whole : after[1] = one[2] + 1}})
Segments == {<<portion[1], EndOfSegment(portion[1])>> : portion \in {one \in Whole : BeginsSegment(one)}}

\* TP-25  A warning is known by the first node of its portion and by the ids.
IdNames == <<"c0", "c1", "c2">>
Sorted(ids) == SelectSeq(IdNames, LAMBDA id : id \in ids)
Key(portion) == <<cells[portion[1]].uid, Sorted(Unpaired(portion))>>
Unwarned == {portion \in Portions : IsBroken(portion) /\ Key(portion) \notin warned}

First(stretches) == CHOOSE one \in stretches : \A other \in stretches : one[1] <= other[1]
Names(stretch) == [i \in 1..(stretch[2] - stretch[1] + 1) |-> cells[stretch[1] + i - 1].uid]

\* TP-02, TP-30  What is put in the place of a stretch.
Replaced(from, to, cell) == SubSeq(cells, 1, from - 1) \o <<Written(cell)>> \o SubSeq(cells, to + 1, Len(cells))

(***************************************************************************)
(* The policy at a pre-step (TP-08): the decision behind it, the signal,   *)
(* the step cap, the seal in a first step, and the folds.                  *)
(***************************************************************************)

Keeps == UNCHANGED <<turn, step, pending, openCalls, mounted, left, exposing>>
Spends(budget) == left[budget] > 0 /\ left' = [left EXCEPT ![budget] = @ - 1]

\* The decision behind the policy has come back: the step may be entered.
Enter ==
    /\ label' = <<"enter">>
    /\ phase = "deciding"
    /\ phase' = "sealing"
    /\ sealed' = FALSE
    /\ UNCHANGED tape
    /\ Keeps

\* TP-08, INV-17, RE-03  A signal that was aborted meanwhile comes first.
SeesAbort == aborted /\ Guarded("signal")

\* CF-20  Then the step cap.
IsCapped == Cap >= 0 /\ step > Cap /\ Guarded("step cap")

MayPlan == phase = "sealing" /\ ~SeesAbort /\ ~IsCapped
MaySeal == MayPlan /\ ~sealed /\ (step = 1 \/ ~Guarded("first step"))         \* INV-16

\* TP-24, TP-25  Every unseen warning comes before the first entry.
Warn ==
    /\ MaySeal
    /\ Unwarned # {}
    /\ LET portion == First(Unwarned)
       IN  /\ label' = <<"warned", Names(portion)>>
           /\ warned' = warned \cup {Key(portion)}
    /\ UNCHANGED <<cells, largestEnded, aborted, phase, sealed>>
    /\ Keeps

\* TP-30, TP-34  One entry per segment, in surface order.  What the plan holds behind it does not change by it.
Seal ==
    /\ MaySeal
    /\ Unwarned = {}
    /\ Segments # {}
    /\ LET segment == First(Segments)
           first == cells[segment[1]].uid
       IN  /\ label' = <<"entry">> \o Names(segment)
           /\ cells' = Replaced(segment[1], segment[2], Cell(<<"entry">> \o first, "entry", 0))
    /\ UNCHANGED <<largestEnded, aborted, warned, phase, sealed>>
    /\ Keeps

IsSealed == ~MaySeal \/ (Unwarned = {} /\ Segments = {})

\* FD-01, FD-03, PX-6, TP-41  After the seal: each long result that no request has shown.
Unfolded == {i \in Places : cells[i].kind = "result" /\ cells[i].long /\ ~cells[i].seen}

Fold ==
    /\ MayPlan
    /\ IsSealed
    /\ Unfolded # {}
    /\ LET i == Min(Unfolded)
           cell == cells[i]
       IN  /\ label' = <<"fold", cell.uid>>
           /\ cells' = Replaced(i, i, [cell EXCEPT !.uid = <<"folded">> \o Tail(cell.uid), !.long = FALSE])
    /\ sealed' = TRUE
    /\ UNCHANGED <<largestEnded, aborted, warned, phase>>
    /\ Keeps

Entered ==
    /\ label' = <<"entered">>
    /\ MayPlan
    /\ IsSealed
    /\ Unfolded = {}
    /\ phase' = "entered"
    /\ sealed' = FALSE
    /\ UNCHANGED tape
    /\ Keeps

\* turn/end, however it came to it: what was written until now is settled.
Settled(sequence) ==
    [i \in DOMAIN sequence |-> [sequence[i] EXCEPT !.late = FALSE, !.long = @ /\ ~sequence[i].seen]]

\* FD-02  A process that takes up a log behind a turn that was aborted, failed or interrupted folds nothing in it.
Exposes(sequence) == [i \in DOMAIN sequence |-> [sequence[i] EXCEPT !.long = FALSE]]

\* `how` tells whether the end exposes what it left (FD-02).
Ends(sequence, how) ==
    /\ cells' = Settled(sequence)
    /\ exposing' = (how = "broken off" /\ left.resumes > 0 /\ \E i \in DOMAIN sequence : sequence[i].long /\ ~sequence[i].seen)
    /\ largestEnded' = Max({largestEnded, turn})
    /\ aborted' = FALSE
    /\ phase' = "idle" /\ step' = 0 /\ pending' = <<>> /\ openCalls' = <<>>
    /\ sealed' = FALSE
    /\ UNCHANGED <<turn, mounted>>

Raise ==
    /\ label' = <<"left", "raise", "aborted">>
    /\ phase = "sealing" /\ SeesAbort
    /\ Ends(cells, "broken off")
    /\ UNCHANGED <<warned, left>>

Reject ==
    /\ label' = <<"left", "return", "reject">>
    /\ phase = "sealing" /\ ~SeesAbort /\ IsCapped
    /\ Ends(cells, "regular")
    /\ UNCHANGED <<warned, left>>

Policy == Enter \/ Warn \/ Seal \/ Fold \/ Entered \/ Raise \/ Reject

(***************************************************************************)
(* The host.                                                               *)
(***************************************************************************)

PreStep(number, claimed) ==
    /\ step' = number
    /\ pending' = claimed
    /\ phase' = IF mounted THEN "deciding" ELSE "entered"

Appended(cell) == cells' = Append(cells, Written(cell))

Mount ==
    /\ label' = <<"mount">>
    /\ phase = "idle" /\ ~mounted
    /\ mounted' = TRUE
    /\ UNCHANGED <<tape, phase, turn, step, pending, openCalls, left, sealed, exposing>>

Human(number) == Cell(<<"human", number>>, "human", number)
Snapshot(number, owner) == Cell(<<"snapshot", number>>, "snapshot", owner)

OpenTurn ==
    /\ label' = <<"turn">>
    /\ phase = "idle"
    /\ Spends("turns")
    /\ turn' = turn + 1
    /\ PreStep(1, <<Human(turn + 1)>>)
    /\ aborted' = FALSE
    /\ UNCHANGED <<cells, largestEnded, warned, openCalls, mounted, sealed, exposing>>

OpenTurnWithSnapshot ==
    /\ label' = <<"turn with snapshot">>
    /\ phase = "idle"
    /\ left.turns > 0 /\ left.snapshots > 0
    /\ left' = [left EXCEPT !.turns = @ - 1, !.snapshots = @ - 1]
    /\ turn' = turn + 1
    /\ PreStep(1, <<Human(turn + 1), Snapshot(2 * (turn + 1), turn + 1)>>)
    /\ aborted' = FALSE
    /\ UNCHANGED <<cells, largestEnded, warned, openCalls, mounted, sealed, exposing>>

\* RE-09, RE-10  Between turns; the turn that just ended owns it (TP-10).
ProjectSnapshot ==
    /\ label' = <<"snapshot">>
    /\ phase = "idle"
    /\ Spends("snapshots")
    /\ \A i \in Places : cells[i].uid # <<"snapshot", 2 * turn + 1>>
    /\ Appended(Snapshot(2 * turn + 1, turn))
    /\ UNCHANGED <<largestEnded, aborted, warned, phase, turn, step, pending, openCalls, mounted, sealed, exposing>>

CancelInPreStep ==
    /\ label' = <<"cancel in pre-step">>
    /\ phase = "deciding" /\ ~aborted
    /\ Spends("cancels")
    /\ aborted' = TRUE
    /\ UNCHANGED <<cells, largestEnded, warned, phase, turn, step, pending, openCalls, mounted, sealed, exposing>>

Exposed(sequence) ==
    [i \in DOMAIN sequence |-> [sequence[i] EXCEPT !.seen = @ \/ sequence[i].kind = "result"]]

Request ==
    /\ label' = <<"request">>
    /\ phase = "entered"
    /\ cells' = Exposed(cells \o [i \in DOMAIN pending |-> Written(pending[i])])
    /\ pending' = <<>>
    /\ phase' = "streaming"
    /\ UNCHANGED <<largestEnded, aborted, warned, turn, step, openCalls, mounted, left, sealed, exposing>>

\* RE-04  The claimed messages are lost; entries stay.
CancelBeforeRequest ==
    /\ label' = <<"cancel before request">>
    /\ phase = "entered"
    /\ Spends("cancels")
    /\ Ends(cells, "broken off")
    /\ UNCHANGED warned

CallTools(ids, how) ==
    /\ phase = "streaming" /\ step = 1
    /\ label' = <<"calls", how>>
    /\ Appended([Cell(<<"calls", turn>>, "assistant", turn) EXCEPT !.calls = ids])
    /\ openCalls' = ids
    /\ phase' = "tools"
    /\ UNCHANGED <<largestEnded, aborted, warned, turn, step, pending, mounted, sealed, exposing>>

CallEach == CallTools(SubSeq(IdNames, 1, CallCount), CallCount) /\ UNCHANGED left

\* RE-69  One id for all of them.
CallUnderOneId == CallCount > 1 /\ CallTools([i \in 1..CallCount |-> "c0"], "one id") /\ Spends("reuses")

Reply ==
    /\ label' = <<"reply">>
    /\ phase = "streaming" /\ step > 1
    /\ Ends(Append(cells, Cell(<<"reply", turn>>, "assistant", turn)), "regular")
    /\ UNCHANGED <<warned, left>>

ReturnResult(long) ==
    /\ phase = "tools"
    /\ LET number == Cardinality({i \in Places0("result") : cells[i].owner = turn /\ cells[i].late})
       IN  Appended([Cell(<<"result", turn, number>>, "result", turn)
                        EXCEPT !.answers = <<Head(openCalls)>>, !.long = long])
    /\ openCalls' = Tail(openCalls)
    /\ phase' = IF Len(openCalls) = 1 THEN "answered" ELSE "tools"
    /\ UNCHANGED <<largestEnded, aborted, warned, turn, step, pending, mounted, sealed, exposing>>

Result == label' = <<"result">> /\ ReturnResult(FALSE) /\ UNCHANGED left
LongResult == label' = <<"long result">> /\ ReturnResult(TRUE) /\ Spends("long")

\* RE-15  A notice of a plugin between a call and its result.
Notice ==
    /\ label' = <<"notice">>
    /\ phase = "tools"
    /\ Spends("steering")
    /\ Appended(Cell(<<"notice">>, "context", turn))
    /\ UNCHANGED <<largestEnded, aborted, warned, phase, turn, step, pending, openCalls, mounted, sealed, exposing>>

\* RE-16
LoseResults ==
    /\ label' = <<"results lost">>
    /\ phase = "tools"
    /\ Spends("losses")
    /\ Ends(cells, "broken off")
    /\ UNCHANGED warned

NextStep ==
    /\ label' = <<"next step">>
    /\ phase = "answered"
    /\ PreStep(2, <<>>)
    /\ UNCHANGED <<tape, turn, openCalls, mounted, left, sealed, exposing>>

\* RE-13
SteeredStep ==
    /\ label' = <<"steered step">>
    /\ phase = "answered"
    /\ PreStep(2, <<Cell(<<"steer">>, "human", turn)>>)
    /\ Spends("steering")
    /\ UNCHANGED <<tape, turn, openCalls, mounted, sealed, exposing>>

\* TP-42, RE-23, RE-24, RE-25  The host puts a summary in the place of a stretch; positions are told from 0.
Edges == {i \in 1..Len(cells) : i = Len(cells) \/ AnyRange \/ cells[i + 1].uid[1] = "human"}

Compact ==
    /\ phase \in {"idle", "answered"}
    /\ Spends("compactions")
    /\ \E first \in Edges, after \in Edges :
        /\ first < after
        /\ label' = <<"compact", first, after - 1>>
        /\ cells' = Replaced(first + 1, after, Cell(<<"summary">>, "context", turn))
    /\ UNCHANGED <<largestEnded, aborted, warned, phase, turn, step, pending, openCalls, mounted, sealed, exposing>>

\* TP-45, RE-01, RE-02  The process dies; the next one closes what was open and remembers nothing.  What the interrupted
\* turn left counts as shown (FD-02).
CrashAndResume ==
    /\ label' = <<"crash and resume">>
    /\ Spends("resumes")
    /\ warned' = {}
    /\ IF phase = "idle"
       THEN /\ aborted' = FALSE
            /\ cells' = IF exposing THEN Exposes(cells) ELSE cells
            /\ UNCHANGED <<largestEnded, exposing, sealed, phase, turn, step, pending, openCalls, mounted>>
       ELSE Ends(Exposes(cells), "regular")

Host ==
    \/ Mount \/ OpenTurn \/ OpenTurnWithSnapshot \/ ProjectSnapshot \/ CancelInPreStep \/ Request \/ CancelBeforeRequest
    \/ CallEach \/ CallUnderOneId \/ Reply \/ Result \/ LongResult \/ Notice \/ LoseResults
    \/ NextStep \/ SteeredStep \/ Compact \/ CrashAndResume

-----------------------------------------------------------------------------
Init ==
    /\ cells = <<Cell(<<"system">>, "system", 0)>>
    /\ largestEnded = 0 /\ aborted = FALSE /\ warned = {}
    /\ phase = "idle" /\ turn = 0 /\ step = 0 /\ pending = <<>> /\ openCalls = <<>>
    /\ mounted = ~Late /\ sealed = FALSE /\ exposing = FALSE
    /\ left = [turns |-> Turns, snapshots |-> Snapshots, steering |-> Steering, compactions |-> Compactions,
               resumes |-> Resumes, cancels |-> Cancels, losses |-> Losses, reuses |-> Reuses, long |-> Long]
    /\ label = <<>>

Next == Policy \/ Host

Spec == Init /\ [][Next]_vars
-----------------------------------------------------------------------------
(***************************************************************************)
(* Claims.  Most are about one step, so that no history is needed.         *)
(***************************************************************************)

Uids(sequence) == {sequence[i].uid : i \in DOMAIN sequence}
Tagged(cell) == [cell EXCEPT !.late = FALSE, !.seen = FALSE, !.long = FALSE]

IsEntryStep == label'[1] = "entry"
IsPolicyStep == phase = "sealing"

HumanCells == SelectSeq(cells, LAMBDA cell : cell.kind = "human")
HumanAfter == SelectSeq(cells', LAMBDA cell : cell.kind = "human")
Entries == SelectSeq(cells, LAMBDA cell : cell.kind = "entry")
EntriesAfter == SelectSeq(cells', LAMBDA cell : cell.kind = "entry")

\* The stretch that an entry takes the place of, as the label tells it.
Sealed == {label'[i] : i \in 2..Len(label')}
SealedCells == SelectSeq(cells, LAMBDA cell : cell.uid \in Sealed)
SealedAt == {i \in Places : cells[i].uid \in Sealed}

\* INV-02  What an entry cites is exactly what it removes, and that is one stretch.
EntriesCiteWhatTheyRemove ==
    [][IsEntryStep =>
        /\ Uids(cells) \ Uids(cells') = Sealed
        /\ SealedAt = Min(SealedAt)..Max(SealedAt)
        /\ Len(cells') = Len(cells) - Cardinality(SealedAt) + 1]_view

\* INV-04  Nothing that is protected is ever sealed.
ProtectedIsNeverSealed ==
    [][IsEntryStep => \A i \in SealedAt :
        /\ cells[i].kind \in {"assistant", "result", "snapshot"}
        /\ cells[i].kind # "snapshot" => ~cells[i].late \/ Renewed \/ \E j \in Places : j > i /\ cells[j].kind = "snapshot"]_view

\* INV-04, TP-13  The live snapshot stays.
LiveSnapshotStays ==
    [][IsEntryStep /\ ~Renewed =>
        \A i \in SealedAt : cells[i].kind = "snapshot" => \E j \in Places : j > i /\ cells[j].kind = "snapshot"]_view

\* INV-05, PX-7  Human text stays where it is, unless the host compacts it away.
HumanTextStays == [][IsPolicyStep => HumanAfter = SelectSeq(Settled(cells), LAMBDA cell : cell.kind = "human") \/ HumanAfter = HumanCells]_view

\* INV-06, PX-2, PX-5  Up to the last entry nothing is changed by an entry.
FrozenPrefixStays ==
    [][IsEntryStep => SubSeq(cells', 1, Frozen) = SubSeq(cells, 1, Frozen)]_view

\* PX-4  Entries are never changed, nested or reordered by the policy.
EntriesNeverChange ==
    [][IsEntryStep =>
        \E i \in 0..Len(EntriesAfter) :
            [j \in DOMAIN Entries |-> Tagged(Entries[j])] =
            [j \in DOMAIN Entries |-> Tagged((SubSeq(EntriesAfter, 1, i - 1) \o SubSeq(EntriesAfter, i + 1, Len(EntriesAfter)))[j])]]_view

\* INV-07, TP-33  When a step is entered, a second plan would be empty (folds count as written now).
NothingIsLeftToSeal ==
    [][label' = <<"entered">> /\ step = 1 /\ ~sealed => Segments = {}]_view

\* INV-08, TP-22  An entry hides as many calls of an id as results.
Count(sequence, id) ==
    Cardinality({<<i, k>> \in (DOMAIN sequence) \X (1..CallCount) :
                    k \in DOMAIN sequence[i].calls /\ sequence[i].calls[k] = id})
Answered(sequence, id) == Cardinality({i \in DOMAIN sequence : \E k \in DOMAIN sequence[i].answers : sequence[i].answers[k] = id})
PairsAreHiddenTogether ==
    [][IsEntryStep => \A id \in Range(IdNames) : Count(SealedCells, id) = Answered(SealedCells, id)]_view

\* INV-15  The newest turns stay raw, and the open turn is never touched.
NewestTurnsStayRaw ==
    [][IsEntryStep => \A i \in SealedAt : cells[i].owner <= largestEnded - Keep /\ cells[i].owner < turn]_view

\* INV-16, CF-20  Seals happen in first steps only, their warnings too, and never in a step that the cap forbids.
SealsInFirstStepsOnly == [][label'[1] \in {"entry", "warned"} => step = 1]_view
CapIsKept == Cap >= 0 => ~(phase \in {"entered", "streaming"} /\ step > Cap)

\* INV-17, RE-03  Behind an aborted signal the policy writes nothing.
AbortedSignalWritesNothing ==
    [][aborted /\ IsPolicyStep => label'[1] \in {"left", "crash and resume"}]_view

\* PX-6, FD-03  Nothing that a request has shown is folded, and a fold changes one result in place.
FoldsAreUnseen ==
    [][label'[1] = "fold" =>
        /\ Len(cells') = Len(cells)
        /\ \E i \in Places : cells[i].uid = label'[2] /\ ~cells[i].seen /\ \A j \in Places \ {i} : cells'[j] = cells[j]]_view

\* TP-12  What was written since the last turn/end is never sealed, snapshots apart.
OnlySettledWorkIsSealed ==
    [][IsEntryStep => \A i \in SealedAt : cells[i].kind \in {"assistant", "result"} => ~cells[i].late]_view

\* TP-25  A warning is given once per session instance.
WarnsOnce == [][label'[1] = "warned" => warned' # warned]_view

\* A turn that may end ends: the policy always comes to its decision.
FairPolicy == Spec /\ WF_vars(Policy)
PolicyDecides == (phase = "sealing") ~> (phase # "sealing")

(* What must be reachable. *)
NeverTwoEntries == Len(Entries) < 2
NeverSplitTurn == ~\E i, j \in Places : i < j /\ cells[i].kind = "entry" /\ cells[j].kind = "entry"
                        /\ cells[i].uid[2] = "calls" /\ cells[j].uid[2] = "reply" /\ cells[i].uid[3] = cells[j].uid[3]
NeverWarned == warned = {}
NeverDeadSnapshotInEntry == ~\E i \in Places : cells[i].kind = "entry" /\ cells[i].uid[2] = "snapshot"
NeverSnapshotBeforeEntry ==
    ~\E i, j, k \in Places : i < j /\ cells[i].kind = "snapshot" /\ cells[j].kind = "entry" /\ cells[k].kind = "snapshot" /\ j < k
NeverFolded == \A i \in Places : cells[i].uid[1] # "folded"
NeverTornPlan == ~(phase = "idle" /\ \E i, j \in Places : i < j /\ cells[i].kind = "entry" /\ cells[j].kind = "assistant"
                        /\ cells[i].owner = 0 /\ cells[j].owner < turn /\ left.resumes < Resumes)
=============================================================================
