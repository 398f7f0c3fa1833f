------------------------------ MODULE Scheduler ------------------------------
(***************************************************************************)
(* The tool batch of one step: exclusive barriers, a rolling pool, commits *)
(* in model order, abort with synthetic pairs, failure that drains.        *)
(*                                                                         *)
(* The calls 1..Calls of one assistant message are worked off by a single  *)
(* coroutine, the lane.  Only dispatched bodies run beside it (T-404).     *)
(* One action of this module is one effect of the lane, or one answer of   *)
(* its surroundings.  Between two effects the listeners of a record or of  *)
(* a notification may run: the window.  They may abort the turn.           *)
(*                                                                         *)
(* Written from the fact sheets: llm-and-tools.md sections 9, 10, 16.1 and *)
(* 17 (T-, INV-S, RACE-), agent-loop.md section 12 (L-TOOL-).              *)
(***************************************************************************)
EXTENDS Naturals, Sequences, FiniteSets

CONSTANTS
    Calls,                   \* how many calls the message has
    Caps,                    \* the sizes that the pool may have, chosen anew for every group
    Prepare,                 \* what preparation may say: "dispatch", "cancelled", "post-result", "final-result"
    Body,                    \* how a dispatch may settle: "success", "failure", "final-result"
    Finalise,                \* answers of post-execute: <<"accept", concludes, contexts>>, <<"block", contexts>>
    LateEntry,               \* wrappers may wait before they reach the body
    SkipsBody,               \* a wrapper may answer without ever reaching the body
    Aborts, Failures,        \* how often the signal may be aborted, and how often the machinery may fail
    StoppedPoolStaysStopped, \* law: a call that was found exclusive keeps the pool stopped while it drains (T-402)
    FailedBatchIsCompleted,  \* law: a failed batch still records a result for every call (VD-40, S-LIF-7)
    Broken                   \* names of guards that are out of force, to see which property notices

Call == 1..Calls
FinaliseAnswers == {Finalise[i] : i \in DOMAIN Finalise}
Nothing == <<>>

VARIABLES
    aborted,    \* the turn signal is aborted; this is never undone (L-CAN-7)
    cut,        \* the lane has seen that: nothing starts any more
    failure,    \* the first failure of the machinery: <<which part, call>>
    next,       \* the first call without a recorded tool/call
    done,       \* how many calls have a recorded tool/result
    live,       \* dispatches in flight
    entered,    \* calls whose body was entered, until their result is recorded
    slots,      \* what is settled and not yet committed, in model order: [call, post, outcome]
    concluded,  \* a recorded success carried the mark (T-314)
    reached,    \* dispatches in flight whose wrappers have reached the body, let in or not
    barred,     \* those of them that were not let in
    lost,       \* the dispatch that is due now will not begin
    left,       \* what the environment may still spend: [abort, failure]
    mode,       \* how the first call of the group was classified: "parallel" or "exclusive"
    last,       \* the last call that the group may hold
    cap,        \* the size of the pool, as read when the group began (T-403)
    point,      \* the await point at which the lane is parked
    frame,      \* what the running segment does next; Nothing when no segment runs
    window,     \* "log" or "live" while listeners of the last effect run, else "closed"
    label       \* the label of the last move; read by nobody

group == <<mode, last, cap>>
line == <<next, done, concluded>>
pool == <<live, entered, reached, barred, lost>>
law == <<cut, failure, slots, line>>
view == <<aborted, law, group, pool, point, frame, window, left>>
vars == <<view, label>>

Guarded(guard) == guard \notin Broken

(***************************************************************************)
(* Small words.                                                            *)
(***************************************************************************)

\* Sequences of calls in model order.
With(calls, c) == SelectSeq(calls, LAMBDA d : d < c) \o <<c>> \o SelectSeq(calls, LAMBDA d : d > c)
Without(calls, c) == SelectSeq(calls, LAMBDA d : d # c)
Among(calls, c) == \E i \in DOMAIN calls : calls[i] = c

\* A result takes its place among those that are settled and not yet committed.
Slot(c, outcome, post) ==
    SelectSeq(slots, LAMBDA one : one.call < c)
    \o <<[call |-> c, post |-> post, outcome |-> outcome]>>
    \o SelectSeq(slots, LAMBDA one : one.call > c)

GoOn(what, listeners) == frame' = what /\ window' = listeners
Park(where) == point' = where /\ frame' = Nothing /\ window' = "closed"
Resume(what) == point' = Nothing /\ frame' = what /\ window' = "closed"
Pay(budget) == left[budget] > 0 /\ left' = [left EXCEPT ![budget] = @ - 1]

Running == frame # Nothing
Label == frame[1]

\* T-305, L-TOOL-18  An abort replaces a success, and nothing else.
Replaced(c, outcome) ==
    IF outcome # "success" \/ ~aborted THEN outcome
    ELSE IF c \in entered THEN "aborted" ELSE "aborted-before-dispatch"

(***************************************************************************)
(* What the running segment has learnt from the answer that it began with. *)
(* It becomes part of the state with the next effect.                      *)
(***************************************************************************)

\* INV-S11  The first failure is the one that is reported.
First(part, c) == IF failure = Nothing THEN <<part, c>> ELSE failure

Settling == Running /\ Label \in {"settled", "bystander"}

Failure ==
    CASE Running /\ Label = "threw"             -> First(frame[2], frame[3])
      [] Running /\ Label = "prepared" /\ frame[4] = "throws" -> First("prepare", frame[2])
      [] Settling /\ frame[3] = "rejects"       -> First("body", frame[2])
      [] Running /\ Label = "started" /\ lost   -> First("execute", frame[2])
      [] OTHER                                  -> failure

Live == IF Settling THEN live \ {frame[2]} ELSE live

\* A record is behind the lane when its observers are done.
CallRecorded == Running /\ Label \in {"prepare", "pair"}
ResultRecorded == Running /\ Label \in {"recorded", "skip", "complete"}

Unstarted == IF CallRecorded THEN frame[2] + 1 ELSE next
Done == IF ResultRecorded THEN frame[2] ELSE done
Entered == IF ResultRecorded /\ Label = "recorded" THEN entered \ {frame[2]} ELSE entered

\* T-314
Concluded == concluded \/ (ResultRecorded /\ Label = "recorded" /\ frame[3])

\* T-202, T-303  An allow that comes after the abort is no dispatch; a denial keeps its reason.
Allowed == Label = "prepared" /\ frame[3] = "policy" /\ frame[4] = "dispatch" /\ ~aborted

\* RACE-11, LR-158  After a failure a preparation comes to nothing.
Refuses ==
    /\ Label = "prepared"
    /\ frame[4] = "throws" \/ (failure # Nothing /\ Guarded("failure stops starts"))

Dispatching == Allowed /\ ~Refuses

\* T-202  What preparation yields without a dispatch: a result for post-execute, or a final one.
Prepared(c, what, answer) ==
    IF what = "arguments"
    THEN Slot(c, IF answer = "dispatch" THEN "aborted-before-dispatch" ELSE "failure", FALSE)
    ELSE CASE answer = "dispatch"     -> Slot(c, "aborted-before-dispatch", TRUE)
           [] answer = "cancelled"    -> Slot(c, IF aborted THEN "aborted-before-dispatch" ELSE "failure", TRUE)
           [] answer = "post-result"  -> Slot(c, "failure", TRUE)
           [] answer = "final-result" -> Slot(c, "failure", FALSE)

\* T-202, T-305  What a dispatch yields.
Settled(c, answer) ==
    CASE answer = "success"      -> Slot(c, Replaced(c, "success"), TRUE)
      [] answer = "failure"      -> Slot(c, "failure", TRUE)
      [] answer = "final-result" -> Slot(c, "failure", ~Guarded("final results are final"))
      [] answer = "barred"       -> Slot(c, "aborted-before-dispatch", TRUE)
      [] answer = "rejects"      -> slots

Slots ==
    IF Settling THEN Settled(frame[2], frame[3])
    ELSE IF Label = "prepared" /\ ~Refuses /\ ~Dispatching THEN Prepared(frame[2], frame[3], frame[4])
    ELSE IF Label = "recorded" THEN SelectSeq(slots, LAMBDA one : one.call # frame[2])
    ELSE slots

\* L-TOOL-2  A pool may hold all remaining calls, an exclusive group one.
LastOfGroup(how) == IF how = "exclusive" /\ Guarded("barrier") THEN next ELSE Calls

\* T-402  A call that is no longer parallel ends the group, now or at every question anew.
Mode == IF Label = "cap" THEN frame[2] ELSE mode
Last ==
    CASE Label = "cap"                              -> LastOfGroup(frame[2])
      [] Label = "left" /\ StoppedPoolStaysStopped -> next - 1
      [] OTHER                                      -> last

\* T-403  The cap is the one that was read when the group began.
Cap == IF Label = "begin" THEN frame[2] ELSE cap

(***************************************************************************)
(* What the lane decides between two effects.                              *)
(***************************************************************************)

\* T-202  The window of tools/execute is there for the dispatch to begin, and for the body to be reached at once unless
\* wrappers may take their time.
DispatchIsDue ==
    /\ Label = "started"
    /\ ~lost
    /\ \/ frame[2] \notin live
       \/ ~Among(reached, frame[2]) /\ ~LateEntry /\ ~SkipsBody

\* The lane performs its next effect; any window is thereby over.
Steps == Running /\ ~DispatchIsDue

\* T-405, L-TOOL-6  The result that is due next: model order, whatever settled first.
HeadOfLine == IF Guarded("model order") \/ Slots = <<>> THEN 1 ELSE Len(Slots)
HeadIsReady == Slots # <<>> /\ (Guarded("model order") => Slots[1].call = Done + 1)

\* A group begins, or a result is recorded and its contexts are accepted.
Committed == Label \in {"begin", "commit"} \/ (Label = "recorded" /\ ~frame[4])

\* T-408  Failure is looked at after a preparation, after a settlement, and when nothing is left to commit.
MustRaise ==
    /\ Failure # Nothing
    /\ \/ Label \in {"threw", "settled", "started", "complete"}
       \/ Refuses
       \/ Committed /\ ~HeadIsReady

Looking == (Committed \/ Label \in {"prepared", "settled", "started"}) /\ ~MustRaise /\ ~Dispatching

\* L-TOOL-7  Results that are ready are committed before anything starts.
MayCommit == Looking /\ HeadIsReady

\* Nothing is left to commit: the lane looks for the next start.
Looks == Looking /\ ~HeadIsReady

\* L-TOOL-14, RACE-29  It looks at the signal then, and not between a classification and what follows from it.
SeesAbort == Looks /\ aborted /\ Guarded("abort stops starts")

\* T-401  A body occupies its place until it settles; a call that was resolved at preparation never had one.
ThereIsRoom == Cardinality(Live) < Cap \/ ~Guarded("cap")

MayFill == Looks /\ ~SeesAbort /\ Unstarted <= last /\ ThereIsRoom

\* No further start: the lane waits for bodies, or the group is over.
Rests == (Looks /\ ~MayFill) \/ Label = "left"
GroupIsOver == Rests /\ Live = {}

\* L-TOOL-15  The rest of the batch gets synthetic pairs.
MaySkip == Unstarted <= Calls /\ (Label = "skip" \/ (GroupIsOver /\ SeesAbort))

MayBeginGroup == Unstarted <= Calls /\ GroupIsOver /\ ~SeesAbort

BatchIsOver == Unstarted > Calls /\ (Label = "skip" \/ GroupIsOver)

\* INV-S9  Whatever ends the batch waits for every body.
Drained == Live = {} \/ ~Guarded("drain")

\* VD-40  A call without a result is answered for, in the format that refuses unanswered calls.
MayComplete == MustRaise /\ Drained /\ FailedBatchIsCompleted /\ Done < Calls

MayThrow == Label = "throw" \/ (MustRaise /\ Drained /\ ~MayComplete)

\* Every effect of the lane takes along what the segment has learnt.
Effect ==
    /\ cut' = (cut \/ SeesAbort)
    /\ failure' = Failure
    /\ slots' = Slots
    /\ mode' = Mode
    /\ last' = Last
    /\ cap' = Cap
    /\ next' = Unstarted
    /\ done' = Done
    /\ concluded' = Concluded
    /\ live' = Live
    /\ entered' = Entered
    /\ lost' = FALSE
    /\ UNCHANGED <<aborted, reached, barred>>

\* An answer from outside is the beginning of a segment and changes nothing else.
Answers(where, what) ==
    /\ ~Running
    /\ point = where
    /\ Resume(what)
    /\ UNCHANGED <<aborted, law, pool>>

Throws(where, part, c) ==
    /\ Answers(where, <<"threw", part, c>> \o SubSeq(where, 3, Len(where)))
    /\ Pay("failure")
    /\ UNCHANGED group

(***************************************************************************)
(* The signal.                                                             *)
(***************************************************************************)

\* A listener of the last effect may act.
Listening == Running /\ window # "closed"

\* Questions are synchronous: nothing else happens until they are answered, except that whoever answers may abort.
Asked == point # Nothing /\ point[1] \in {"classify", "cap", "contexts"}

\* RACE-5, RACE-7, RACE-15, RACE-29  From any window, and from outside at any await point.
Abort ==
    /\ label' = <<"abort">>
    /\ ~aborted
    /\ Listening \/ (~Running /\ (point # Nothing \/ live # {}))
    /\ aborted' = TRUE
    /\ Pay("abort")
    /\ UNCHANGED <<law, group, pool, point, frame, window>>

(***************************************************************************)
(* Classification and the size of the pool.                                *)
(***************************************************************************)

\* T-402, L-TOOL-3  The first call of a group is classified once; every other one immediately before its start.
ParkClassify(c) ==
    /\ label' = <<"park", "classify", c>>
    /\ c = Unstarted
    /\ \/ MayFill /\ Label # "begin" /\ Park(<<"classify", c, "again">>)
       \/ MayBeginGroup /\ Park(<<"classify", c, "first">>)
    /\ Effect
    /\ UNCHANGED left

AnswerClassify(c, answer) ==
    /\ label' = <<"answer", "classify", c, answer>>
    /\ \/ Answers(<<"classify", c, "first">>, <<"cap", answer>>)
       \/ answer = "parallel" /\ Answers(<<"classify", c, "again">>, <<"call", c>>)
       \/ answer = "exclusive" /\ Answers(<<"classify", c, "again">>, <<"left">>)
    /\ UNCHANGED <<group, left>>

\* T-408  The plumbing of a classification is machinery; a classifier that throws is merely exclusive (T-114).
ClassifyThrows(c) ==
    /\ label' = <<"answer", "classify", c, "throws">>
    /\ \E place \in {"first", "again"} : Throws(<<"classify", c, place>>, "classify", c)

\* T-403, L-SET-4  The cap is read once per group.
ParkCap ==
    /\ label' = <<"park", "cap">>
    /\ Label = "cap"
    /\ Park(<<"cap">>)
    /\ Effect
    /\ UNCHANGED left

AnswerCap(size) ==
    /\ label' = <<"answer", "cap", "cap", size>>
    /\ Answers(<<"cap">>, <<"begin", size>>)
    /\ UNCHANGED <<group, left>>

CapThrows ==
    /\ label' = <<"answer", "cap", "throws">>
    /\ Throws(<<"cap">>, "cap", next)

(***************************************************************************)
(* The start of a call.                                                    *)
(***************************************************************************)

MayStart(c) == c = Unstarted /\ (frame = <<"call", c>> \/ (MayFill /\ Label = "begin"))

\* L-TOOL-5, INV-S2  A start is recorded first; so is the first half of a synthetic pair (L-TOOL-15, T-409).
AppendCall(c) ==
    /\ label' = <<"append", "tool/call", c>>
    /\ \/ MayStart(c) /\ GoOn(<<"prepare", c>>, "log")
       \/ MaySkip /\ c = Unstarted /\ GoOn(<<"pair", c>>, "log")
    /\ Effect
    /\ UNCHANGED <<point, left>>

RefuseCall(c) ==
    /\ label' = <<"refuse", "tool/call", c>>
    /\ MayStart(c) \/ (MaySkip /\ c = Unstarted)
    /\ GoOn(<<"threw", "tool/call", c>>, "closed")
    /\ Pay("failure")
    /\ Effect
    /\ UNCHANGED point

\* T-302, L-TOOL-17  Under an aborted signal only the arguments are looked at; else policy, approval and guards.
ParkPrepare(c, what) ==
    /\ label' = <<"park", "prepare", c, what>>
    /\ frame = <<"prepare", c>>
    /\ what = (IF aborted THEN "arguments" ELSE "policy")
    /\ Park(<<"prepare", c, what>>)
    /\ Effect
    /\ UNCHANGED left

AnswerPrepare(c, what, answer) ==
    /\ label' = <<"answer", "prepare", c, answer>>
    /\ answer \in (IF what = "arguments" THEN {"dispatch", "final-result"} ELSE Prepare)
    /\ Answers(<<"prepare", c, what>>, <<"prepared", c, what, answer>>)
    /\ UNCHANGED <<group, left>>

PrepareThrows(c, what) ==
    /\ label' = <<"answer", "prepare", c, "throws">>
    /\ Answers(<<"prepare", c, what>>, <<"prepared", c, what, "throws">>)
    /\ Pay("failure")
    /\ UNCHANGED group

(***************************************************************************)
(* Dispatch, body, settlement.                                             *)
(***************************************************************************)

NotifyExecute(c) ==
    /\ label' = <<"notify", "tools/execute", c>>
    /\ Dispatching /\ frame[2] = c
    /\ GoOn(<<"started", c>>, "live")
    /\ Effect
    /\ UNCHANGED <<point, left>>

\* The dispatch begins; the lane does not wait for it (T-404).
ParkBody(c) ==
    /\ label' = <<"park", "body", c>>
    /\ frame = <<"started", c>>
    /\ ~lost /\ c \notin live
    /\ live' = live \cup {c}
    /\ UNCHANGED <<aborted, law, group, entered, reached, barred, lost, point, frame, window, left>>

\* The dispatch is rejected before it begins (L-TOOL-21).
Lose(c) ==
    /\ label' = <<"lose", c>>
    /\ frame = <<"started", c>>
    /\ ~lost /\ c \notin live
    /\ lost' = TRUE
    /\ Pay("failure")
    /\ UNCHANGED <<aborted, law, group, live, entered, reached, barred, point, frame, window>>

\* T-304, INV-S8, RACE-1  The wrappers have reached the body: it is entered only under a live signal.
Enter(c, allowed) ==
    /\ label' = <<"enter", c, allowed>>
    /\ c \in live /\ ~Among(reached, c)
    /\ \/ frame = <<"started", c>>
       \/ ~Running /\ ~Asked /\ LateEntry
    /\ allowed = (~aborted \/ ~Guarded("entry"))
    /\ reached' = With(reached, c)
    /\ barred' = IF allowed THEN barred ELSE With(barred, c)
    /\ entered' = IF allowed THEN entered \cup {c} ELSE entered
    /\ UNCHANGED <<aborted, law, group, live, lost, point, frame, window, left>>

\* What the dispatch of a call may come back with: a body that was not let in leaves its mark, unless a wrapper makes
\* something else of it.
MaySettle(c, answer) ==
    IF Among(barred, c)
    THEN answer = "barred" \/ (SkipsBody /\ answer \in Body)
    ELSE answer \in Body /\ (Among(reached, c) \/ SkipsBody)

\* The lane looks at once, unless it is busy with a preparation or with post-execute (T-404).
Settles(c, answer) ==
    /\ ~Running /\ ~Asked
    /\ c \in live
    /\ frame' = <<IF point = Nothing THEN "settled" ELSE "bystander", c, answer>>
    /\ reached' = Without(reached, c)
    /\ barred' = Without(barred, c)
    /\ UNCHANGED <<aborted, law, group, live, entered, lost, point, window>>

AnswerBody(c, answer) ==
    /\ label' = <<"answer", "body", c, answer>>
    /\ MaySettle(c, answer)
    /\ Settles(c, answer)
    /\ UNCHANGED left

\* The machinery of the dispatch itself fails.
BodyRejects(c) ==
    /\ label' = <<"answer", "body", c, "rejects">>
    /\ Settles(c, "rejects")
    /\ Pay("failure")

\* A settlement finds the lane busy.
LeaveReturn ==
    /\ label' = <<"leave", "return", "null">>
    /\ Label = "bystander"
    /\ GoOn(Nothing, "closed")
    /\ Effect
    /\ UNCHANGED <<point, left>>

\* The lane has nothing to do before a body settles.
LeaveWait ==
    /\ label' = <<"leave", "wait">>
    /\ \/ Rests /\ Live # {}
       \/ MustRaise /\ ~Drained
    /\ GoOn(Nothing, "closed")
    /\ Effect
    /\ UNCHANGED <<point, left>>

(***************************************************************************)
(* The commit of a result: post-execute, tools/result, tool/result,        *)
(* contexts (L-TOOL-6).                                                    *)
(***************************************************************************)

Committing(c, outcome, post) ==
    /\ MayCommit
    /\ Slots[HeadOfLine] = [call |-> c, post |-> post, outcome |-> outcome]

ParkFinalise(c, outcome) ==
    /\ label' = <<"park", "finalise", c, outcome>>
    /\ Committing(c, outcome, TRUE)
    /\ Park(<<"finalise", c, outcome>>)
    /\ Effect
    /\ UNCHANGED left

AnswerFinalise(c, outcome, answer) ==
    /\ label' = <<"answer", "finalise", c>> \o answer
    /\ answer[1] = "block" \/ ~answer[2] \/ outcome = "success"
    /\ Answers(<<"finalise", c, outcome>>, <<"finalised", c, outcome, answer>>)
    /\ UNCHANGED <<group, left>>

FinaliseThrows(c, outcome) ==
    /\ label' = <<"answer", "finalise", c, "throws">>
    /\ Throws(<<"finalise", c, outcome>>, "finalise", c)

\* T-306, T-311, L-TOOL-12  The outcome, whether it concludes, whether it has contexts.  Only a success concludes;
\* contexts are kept by an abort; a block has only its own.
Finalised(c, outcome, answer) ==
    IF answer[1] = "block" THEN <<"failure", FALSE, answer[2]>>
    ELSE LET after == Replaced(c, outcome)
         IN  <<after, answer[2] /\ (after = "success" \/ ~Guarded("only success concludes")), answer[3]>>

\* INV-S14  One notification per call that entered the executor.  A final result comes here at once (INV-S15).
NotifyResult(c, outcome) ==
    /\ label' = <<"notify", "tools/result", c, outcome>>
    /\ \/ /\ Label = "finalised" /\ frame[2] = c
          /\ LET result == Finalised(c, frame[3], frame[4])
             IN  result[1] = outcome /\ GoOn(<<"notice", c>> \o result, "live")
       \/ /\ Committing(c, outcome, FALSE)
          /\ GoOn(<<"notice", c, outcome, FALSE, FALSE>>, "live")
    /\ Effect
    /\ UNCHANGED <<point, left>>

\* L-TOOL-10, L-TOOL-19  A record of what was published; abort and failure no longer change it.
Publishes(c, outcome) == Label = "notice" /\ frame[2] = c /\ frame[3] = outcome

Pairs(c, outcome) == frame = <<"pair", c>> /\ outcome = "never-started"

\* S-REP-3  A completion tells what the log knows of the call.
Completes(c, outcome) ==
    MayComplete /\ c = Done + 1 /\ outcome = (IF c < next THEN "outcome-unknown" ELSE "not-started")

AppendResult(c, outcome) ==
    /\ label' = <<"append", "tool/result", c, outcome>>
    /\ \/ /\ Publishes(c, outcome)
          /\ GoOn(<<"recorded", c, frame[4], frame[5]>>, "log")
       \/ /\ Pairs(c, outcome)
          /\ GoOn(<<"skip", c>>, "log")
       \/ /\ Completes(c, outcome)
          /\ GoOn(<<"complete", c>>, "log")
    /\ Effect
    /\ UNCHANGED <<point, left>>

RefuseResult(c, outcome) ==
    /\ label' = <<"refuse", "tool/result", c, outcome>>
    /\ \/ (Publishes(c, outcome) \/ Pairs(c, outcome)) /\ GoOn(<<"threw", "tool/result", c>>, "closed")
       \/ Completes(c, outcome) /\ GoOn(<<"throw">>, "closed")
    /\ Pay("failure")
    /\ Effect
    /\ UNCHANGED point

\* T-313, L-TOOL-8  The contexts of a result follow it into the next-step inbox, before the next result.
ParkContexts(c) ==
    /\ label' = <<"park", "contexts", c>>
    /\ Label = "recorded" /\ frame[2] = c /\ frame[4]
    /\ Park(<<"contexts", c>>)
    /\ Effect
    /\ UNCHANGED left

AnswerContexts(c) ==
    /\ label' = <<"answer", "contexts", c, "done">>
    /\ Answers(<<"contexts", c>>, <<"commit">>)
    /\ UNCHANGED <<group, left>>

\* LR-159  An id that is pending already.
ContextsThrow(c) ==
    /\ label' = <<"answer", "contexts", c, "throws">>
    /\ Throws(<<"contexts", c>>, "contexts", c)

(***************************************************************************)
(* The end of the batch.                                                   *)
(***************************************************************************)

\* L-TOOL-13, T-406  An aborted batch returns like any other; the loop looks at the signal after step/end.
Leave(answer) ==
    /\ label' = <<"leave", answer>>
    /\ BatchIsOver
    /\ answer = (IF Concluded THEN "concluded" ELSE "continue")
    /\ GoOn(Nothing, "closed")
    /\ Effect
    /\ UNCHANGED <<point, left>>

\* VD-40  If the results that were due could not be recorded, the error says that too.
Said(error) == <<"leave", "throws", error>> \o (IF Label = "throw" THEN <<"incomplete">> ELSE Nothing)

\* L-TOOL-21, INV-S11
LeaveThrows(part, c) ==
    /\ label' = Said(<<part, c>>)
    /\ MayThrow
    /\ Failure = <<part, c>>
    /\ GoOn(Nothing, "closed")
    /\ Effect
    /\ UNCHANGED <<point, left>>

-----------------------------------------------------------------------------
Outcomes == {"success", "failure", "aborted", "aborted-before-dispatch"}
Unfinished == {"never-started", "outcome-unknown", "not-started"}

Init ==
    /\ aborted \in BOOLEAN      \* CW13: under a live signal, or under one that was aborted before
    /\ cut = FALSE /\ failure = Nothing
    /\ mode = "exclusive" /\ last = 0 /\ cap = 0
    /\ next = 1 /\ done = 0 /\ slots = <<>> /\ concluded = FALSE
    /\ live = {} /\ entered = {} /\ reached = <<>> /\ barred = <<>> /\ lost = FALSE
    /\ point = Nothing /\ frame = <<"left">> /\ window = "closed"
    /\ left = [abort |-> Aborts, failure |-> Failures]
    /\ label = <<>>

\* Whatever the lane does, it does when its listeners are done.  (The call that a move is about is known from the state;
\* to try every call instead would take several times as long.)
Lane == Steps /\
    \/ ParkCap \/ LeaveWait \/ LeaveReturn
    \/ BatchIsOver /\ \E answer \in {"concluded", "continue"} : Leave(answer)
    \/ Unstarted \in Call /\ (ParkClassify(Unstarted) \/ AppendCall(Unstarted))
    \/ Label = "prepared" /\ NotifyExecute(frame[2])
    \/ Label = "recorded" /\ ParkContexts(frame[2])
    \/ Label = "prepare" /\ \E what \in {"arguments", "policy"} : ParkPrepare(frame[2], what)
    \/ Label = "finalised" /\ \E outcome \in Outcomes : NotifyResult(frame[2], outcome)
    \/ MayCommit /\ LET head == Slots[HeadOfLine]
                    IN  ParkFinalise(head.call, head.outcome) \/ NotifyResult(head.call, head.outcome)
    \/ Label = "notice" /\ AppendResult(frame[2], frame[3])
    \/ Label = "pair" /\ AppendResult(frame[2], "never-started")
    \/ MayComplete /\ \E outcome \in Unfinished : AppendResult(Done + 1, outcome)
    \/ MayThrow /\ LeaveThrows(Failure[1], Failure[2])

\* The lane waits for an answer about this call.
WaitsAt(where, c) == ~Running /\ point # Nothing /\ point[1] = where /\ point[2] = c

Surroundings ==
    \/ \E size \in Caps : AnswerCap(size)
    \/ \E c \in Call :
        \/ WaitsAt("classify", c) /\ \E answer \in {"parallel", "exclusive"} : AnswerClassify(c, answer)
        \/ /\ WaitsAt("prepare", c)
           /\ \E answer \in Prepare \cup {"dispatch", "final-result"} : AnswerPrepare(c, point[3], answer)
        \/ WaitsAt("finalise", c) /\ \E answer \in FinaliseAnswers : AnswerFinalise(c, point[3], answer)
        \/ WaitsAt("contexts", c) /\ AnswerContexts(c)
        \/ ParkBody(c)
    \/ \E c \in live :
        \/ \E allowed \in BOOLEAN : Enter(c, allowed)
        \/ ~Running /\ \E answer \in Body \cup {"barred"} : AnswerBody(c, answer)

Failing ==
    \/ CapThrows
    \/ \E c \in Call :
        \/ WaitsAt("classify", c) /\ ClassifyThrows(c)
        \/ WaitsAt("prepare", c) /\ PrepareThrows(c, point[3])
        \/ WaitsAt("finalise", c) /\ FinaliseThrows(c, point[3])
        \/ WaitsAt("contexts", c) /\ ContextsThrow(c)
        \/ Lose(c)
    \/ \E c \in live : BodyRejects(c)
    \/ /\ Steps
       /\ \/ Unstarted \in Call /\ RefuseCall(Unstarted)
          \/ Label = "notice" /\ RefuseResult(frame[2], frame[3])
          \/ Label = "pair" /\ RefuseResult(frame[2], "never-started")
          \/ MayComplete /\ \E outcome \in Unfinished : RefuseResult(Done + 1, outcome)

Next == Lane \/ Surroundings \/ Abort \/ Failing

Spec == Init /\ [][Next]_vars

(***************************************************************************)
(* Runs that anybody can play: what happens in them has an outcome of a    *)
(* gate, a veto or a cancel in the conformance protocol.                   *)
(***************************************************************************)
PlayableMove ==
    label'[1] = "answer" =>
        CASE label'[2] = "cap"      -> label'[3] # "throws"
          [] label'[2] = "classify" -> label'[4] # "throws"
          [] label'[2] = "prepare"  -> label'[4] \in IF point[3] = "policy" THEN {"dispatch", "post-result", "final-result"}
                                                     ELSE {"dispatch"}
          [] label'[2] = "body"     -> label'[4] \in {"success", "failure", "barred"}
          [] label'[2] = "finalise" -> label'[4] # "throws" /\ ~label'[Len(label')]
          [] OTHER                  -> FALSE

\* Nobody outside can abort while no gate holds the lane, and here a cancel begins in the run.
HeldByGates ==
    /\ ~Running
    /\ \A c \in live : Among(reached, c)
    /\ point = Nothing \/ point[1] = "finalise" \/ (point[1] = "prepare" /\ point[3] = "policy")

Playable ==
    /\ PlayableMove
    /\ aborted => left.abort < Aborts
    /\ label'[1] = "abort" => (Running /\ window = "log") \/ HeldByGates
=============================================================================
