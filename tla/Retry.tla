-------------------------------- MODULE Retry --------------------------------
(***************************************************************************)
(* Whether, when and how often a failed model request is tried again: one  *)
(* recovery at a time, delegation to the listeners behind, budgets per     *)
(* (turn, step, provider, policy), a backoff that a cancel or the end of   *)
(* the plugin cuts short.                                                  *)
(*                                                                         *)
(* Written from llm-and-tools.md 6 (M-601 to M-623), 16.2 (INV-R) and 17   *)
(* (RACE-16 to RACE-20).                                                   *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Failures, Steps, Cancels, Ends, Refusals, Doubles,  \* how often each may happen
    Depth,                      \* 1: listeners of a record may call back; 0: they may not
    CancelWinsBackoffTie,       \* law: after the wait somebody looks at the signal once more (RACE-16)
    Broken                      \* names of guards that are out of force

VARIABLES
    over,           \* the plugin has ended
    active,         \* a recovery is under way
    aborted,        \* the signal of its turn is aborted
    waiting,        \* it waits for its timer
    place,          \* <<turn, step>> that the chains belong to
    chains,         \* <<number, provider, policy, retries>>, by number
    opened,         \* how many chains have ever had a record
    coursePlace,    \* the step of the last failure
    courseActive,   \* its recovery is under way
    courseCancelled,\* its turn was cancelled
    courseSaid,     \* what the listeners behind said in this recovery
    courseGoesOn,   \* the last recovery has led to another attempt
    left,           \* what the surroundings may still do
    failed,         \* the failure that is being recovered from
    point,          \* where the recovery waits: <<"downstream">>, <<"wait", milliseconds>>, or <<>>
    frame,          \* what the recovery does next; <<>> when it waits or there is none
    listening,      \* the observers of its last record run
    visitor,        \* the call from outside, or from an observer, that is under way
    label           \* the label of the last move; read by nobody

machine == <<over, active, aborted, waiting, place, chains, opened>>
course == <<coursePlace, courseActive, courseCancelled, courseSaid, courseGoesOn>>
control == <<failed, point, frame, listening, visitor>>
view == <<machine, course, left, control>>
vars == <<view, label>>

Nothing == <<>>
Guarded(guard) == guard \notin Broken
Min(a, b) == IF a <= b THEN a ELSE b
Pay(price) ==
    /\ \A b \in DOMAIN left : left[b] >= price[b]
    /\ left' = [b \in DOMAIN left |-> left[b] - price[b]]
Free == [b \in DOMAIN left |-> 0]
Costs(budget) == [Free EXCEPT ![budget] = 1]

(***************************************************************************)
(* Policies and failures (M-602).                                          *)
(***************************************************************************)

Normal   == <<"normal", 2, <<"SERVER">>, 2, 4, 1>>
Stricter == <<"normal", 1, <<"SERVER">>, 2, 4, 0>>
Always   == <<"always", 0, <<>>, 1, 2, 0>>
NoPolicy == <<>>

Routes == <<<<"a", Normal>>, <<"a", Stricter>>, <<"b", Stricter>>, <<"b", Always>>, <<"c", NoPolicy>>>>
FailuresOf == {<<"SERVER", 0, 0>>, <<"SERVER", 0, 1>>, <<"SERVER", 2, 0>>, <<"SERVER", 9, 0>>, <<"AUTH", 0, 0>>}
Places == {<<1, 1>>, <<1, 2>>, <<2, 1>>}

Failed(where, route, what, cancelled) ==
    [place |-> where, provider |-> route[1], policy |-> route[2],
     code |-> what[1], advised |-> what[2], random |-> what[3], cancelled |-> cancelled]

HasPolicy == failed.policy # NoPolicy
IsAlways == HasPolicy /\ failed.policy[1] = "always"
IsNormal == HasPolicy /\ failed.policy[1] = "normal"
MaxRetries == failed.policy[2]
IsRetryable == \E i \in DOMAIN failed.policy[3] : failed.policy[3][i] = failed.code
InitialDelay == failed.policy[4]
MaxDelay == failed.policy[5]
Jitter == failed.policy[6]

\* M-610  With a jitter and a random number of 0 or 1 everything is whole.
Local(retry) ==
    LET backoff == Min(InitialDelay * (2 ^ (retry - 1)), MaxDelay)
    IN  Min(IF Jitter = 0 THEN backoff ELSE 2 * failed.random * backoff, MaxDelay)

(***************************************************************************)
(* The decision procedure (6.1).                                           *)
(***************************************************************************)

Fresh == frame = <<"recover">>

\* M-611
Aborted == IF Fresh THEN failed.cancelled ELSE aborted
Cancelled == (Aborted \/ over) /\ Guarded("cancel")

\* M-612  A new step begins its own chains.
Known == IF Fresh /\ failed.place # place THEN <<>> ELSE chains

IsOurs(chain) == chain[2] = failed.provider /\ chain[3] = failed.policy
HasChain == \E i \in DOMAIN Known : IsOurs(Known[i])

\* INV-R1  A schedule counts, and opens its chain, when its record is behind us.
Schedules == frame # Nothing /\ frame[1] = "scheduled"
Opens == Schedules /\ ~HasChain
Opened == IF Opens THEN opened + 1 ELSE opened
Chains ==
    IF Opens THEN Append(Known, <<Opened, failed.provider, failed.policy, 1>>)
    ELSE [i \in DOMAIN Known |->
            IF Schedules /\ IsOurs(Known[i]) THEN [Known[i] EXCEPT ![4] = @ + 1] ELSE Known[i]]

Ours == {i \in DOMAIN Chains : IsOurs(Chains[i])}
Retries == IF Ours = {} THEN 0 ELSE Chains[CHOOSE i \in Ours : TRUE][4]
Number == IF Ours = {} THEN Opened + 1 ELSE Chains[CHOOSE i \in Ours : TRUE][1]
Retry == Retries + 1

IsSpent == IsNormal /\ Retries >= MaxRetries /\ Guarded("budget")
IsBeyond == failed.advised > MaxDelay
Delay == IF failed.advised > 0 /\ ~IsBeyond THEN failed.advised ELSE Local(Retry)

\* What a normal policy leaves to the listeners behind; a route without a policy is theirs altogether.
Delegates == ~HasPolicy \/ (IsNormal /\ ((~IsRetryable /\ Guarded("code")) \/ IsSpent \/ IsBeyond))

\* The listeners behind have spoken, and it is for us to go on.
OverrulesDownstream == IsAlways /\ ~Cancelled /\ frame \in {<<"said", "none">>, <<"warned">>}

MayPark == Fresh /\ ~over /\ (Delegates \/ (IsAlways /\ ~Cancelled))
MayWarn == IsAlways /\ ~Cancelled /\ frame = <<"said", "throws">>
MaySchedule == (Fresh /\ IsNormal /\ ~Delegates /\ ~Cancelled) \/ OverrulesDownstream

\* The observers of the schedule may have cancelled: then no timer is armed.
MayWait == Schedules /\ ~Cancelled
MayStart == frame = <<"waited", "elapsed">> /\ ~(CancelWinsBackoffTie /\ Cancelled)

Answer ==
    CASE Fresh /\ ~MayPark /\ ~MaySchedule                    -> "none"
      [] frame[1] = "said" /\ ~IsAlways                       -> "downstream"
      [] frame[1] = "said" /\ IsAlways /\ Cancelled           -> "none"
      [] frame = <<"said", "retry">> /\ IsAlways /\ ~Cancelled -> "downstream"
      [] frame = <<"warned">> /\ Cancelled                    -> "none"
      [] Schedules /\ Cancelled                 -> "none"
      [] frame[1] = "waited" /\ ~MayStart                     -> "none"
      [] frame = <<"started">>                                -> "retry"
      [] frame = <<"refused">>                                -> "throws"
      [] frame[1] = "drained"                                 -> frame[2]
      [] OTHER                                                -> "nothing yet"

(***************************************************************************)
(* Effects of the recovery.                                                *)
(***************************************************************************)

Steps0 == frame # Nothing /\ visitor = Nothing

\* Of a failure only what still matters is kept.
Kept(what) ==
    CASE what = "its chain" -> [failed EXCEPT !.code = "", !.cancelled = FALSE, !.advised = 0, !.random = 0]
      [] what = "its place" -> Failed(failed.place, <<"", NoPolicy>>, <<"", 0, 0>>, FALSE)

\* What the segment has learnt joins its next effect.
Learns ==
    /\ Steps0
    /\ active' = TRUE
    /\ aborted' = Aborted
    /\ place' = failed.place
    /\ chains' = Chains
    /\ opened' = Opened
    /\ UNCHANGED <<over, course, visitor>>

GoOn(what, heard) == frame' = what /\ listening' = heard /\ point' = Nothing

ParkDownstream ==
    /\ label' = <<"park", "downstream">>
    /\ MayPark
    /\ Learns
    /\ failed' = IF Delegates THEN Kept("its place") ELSE failed
    /\ frame' = Nothing /\ listening' = FALSE /\ point' = <<"downstream">>
    /\ UNCHANGED <<waiting, left>>

Warn ==
    /\ label' = <<"note", "warn">>
    /\ MayWarn
    /\ Learns
    /\ failed' = failed
    /\ GoOn(<<"warned">>, FALSE)
    /\ UNCHANGED <<waiting, left>>

\* M-620, INV-R4  The schedule is recorded before the wait.
AppendRetry ==
    /\ MaySchedule
    /\ label' = <<"append", "llm/retry", Number, Retry, Delay>>
    /\ Learns
    /\ failed' = Kept("its chain")
    /\ GoOn(<<"scheduled", Delay>>, TRUE)
    /\ UNCHANGED <<waiting, left>>

RefuseRetry ==
    /\ MaySchedule
    /\ label' = <<"refuse", "llm/retry", Number, Retry, Delay>>
    /\ Learns
    /\ failed' = Kept("its place")
    /\ GoOn(<<"refused">>, FALSE)
    /\ Pay(Costs("refusals"))
    /\ UNCHANGED waiting

ParkWait ==
    /\ MayWait
    /\ label' = <<"park", "wait", frame[2]>>
    /\ Learns
    /\ failed' = Kept("its chain")
    /\ waiting' = TRUE
    /\ frame' = Nothing /\ listening' = FALSE /\ point' = <<"wait", frame[2]>>
    /\ UNCHANGED left

\* M-621, M-622, RACE-16  No started event behind a cut.
AppendStarted ==
    /\ MayStart
    /\ label' = <<"append", "llm/retry-started", Number, Retries>>
    /\ Learns
    /\ failed' = Kept("its place")
    /\ waiting' = FALSE
    /\ GoOn(<<"started">>, TRUE)
    /\ UNCHANGED left

RefuseStarted ==
    /\ MayStart
    /\ label' = <<"refuse", "llm/retry-started", Number, Retries>>
    /\ Learns
    /\ failed' = Kept("its place")
    /\ waiting' = FALSE
    /\ GoOn(<<"refused">>, FALSE)
    /\ Pay(Costs("refusals"))

\* M-621  The end of the plugin waits for the recovery that is under way.
OwesDrained == over /\ active /\ frame[1] # "drained"

NoteDrained ==
    /\ label' = <<"note", "drained">>
    /\ Steps0
    /\ Answer # "nothing yet" /\ OwesDrained
    /\ active' = FALSE /\ aborted' = FALSE /\ waiting' = FALSE
    /\ GoOn(<<"drained", Answer>>, FALSE)
    /\ chains' = Chains /\ opened' = Opened
    /\ failed' = Kept("its place")
    /\ UNCHANGED <<over, place, course, visitor, left>>

Give ==
    /\ Steps0
    /\ Answer # "nothing yet" /\ ~OwesDrained
    /\ label' = <<"leave", "give", Answer>>
    /\ active' = FALSE /\ aborted' = FALSE /\ waiting' = FALSE
    /\ place' = IF over THEN place ELSE failed.place
    /\ chains' = IF over THEN chains ELSE Chains
    /\ opened' = Opened
    /\ frame' = Nothing /\ listening' = FALSE /\ point' = Nothing /\ failed' = Nothing
    /\ courseActive' = FALSE /\ courseCancelled' = FALSE
    /\ courseGoesOn' = (~courseCancelled /\ (Answer = "retry" \/ (Answer = "downstream" /\ courseSaid = "retry")))
    /\ courseSaid' = ""
    /\ UNCHANGED <<over, coursePlace, visitor, left>>

(***************************************************************************)
(* Answers.                                                                *)
(***************************************************************************)

Outside == frame = Nothing /\ visitor = Nothing

AnswerDownstream(said) ==
    /\ label' = <<"answer", <<"downstream">>, <<said>>>>
    /\ Outside /\ point = <<"downstream">>
    /\ GoOn(<<"said", said>>, FALSE)
    /\ courseSaid' = said
    /\ UNCHANGED <<machine, coursePlace, courseActive, courseCancelled, courseGoesOn, failed, visitor, left>>

\* RACE-16  A timer may run off although somebody has just cut it.
AnswerWait(how) ==
    /\ Outside /\ point # Nothing /\ point[1] = "wait"
    /\ label' = <<"answer", point, <<how>>>>
    /\ how = "cut" => aborted \/ over
    /\ GoOn(<<"waited", how>>, FALSE)
    /\ UNCHANGED <<machine, course, failed, visitor, left>>

(***************************************************************************)
(* Calls.                                                                  *)
(***************************************************************************)

MayCall == visitor = Nothing /\ (frame = Nothing \/ (listening /\ Depth > 0))
IsIdle == Outside /\ point = Nothing

Before(a, b) == a[1] < b[1] \/ (a[1] = b[1] /\ a[2] < b[2])
MayFailNext(where) == IF courseGoesOn THEN ~Before(where, coursePlace) ELSE where[1] > coursePlace[1]

Called(f) ==
    <<"call", "recover", f.place[1], f.place[2], f.provider, f.policy, f.code, f.advised, f.random, f.cancelled>>

\* A step that fails is not the one before the last failure.
Recover(f) ==
    /\ label' = Called(f)
    /\ IsIdle
    /\ MayFailNext(f.place) /\ ~Before(f.place, place)
    /\ Pay([Free EXCEPT !["failures"] = 1,
                        !["steps"] = IF f.place = place THEN 0 ELSE 1,
                        !["cancels"] = IF f.cancelled THEN 1 ELSE 0])
    /\ failed' = f
    /\ GoOn(<<"recover">>, FALSE)
    /\ coursePlace' = f.place /\ courseActive' = TRUE /\ courseCancelled' = f.cancelled
    /\ courseSaid' = "" /\ courseGoesOn' = FALSE
    /\ UNCHANGED <<machine, visitor>>

RecoverAgain ==
    /\ label' = Called(Failed(place, Routes[1], <<"SERVER", 0, 0>>, FALSE))
    /\ MayCall /\ active /\ ~over
    /\ Pay(Costs("doubles"))
    /\ visitor' = <<"busy">>
    /\ UNCHANGED <<machine, course, failed, point, frame, listening>>

Abort ==
    /\ label' = <<"call", "abort">>
    /\ MayCall /\ active /\ ~aborted
    /\ Pay(Costs("cancels"))
    /\ visitor' = <<"abort">>
    /\ courseCancelled' = TRUE
    /\ UNCHANGED <<machine, coursePlace, courseActive, courseSaid, courseGoesOn, failed, point, frame, listening>>

Dispose ==
    /\ label' = <<"call", "dispose">>
    /\ MayCall /\ ~over
    /\ Pay(Costs("ends"))
    /\ visitor' = <<"dispose">>
    /\ UNCHANGED <<machine, course, failed, point, frame, listening>>

\* INV-R10  Whoever cancels during the wait stops the timer; to stop it twice does no harm.
Cuts == waiting

NoteCut ==
    /\ label' = <<"note", "cut">>
    /\ visitor \in {<<"abort">>, <<"dispose">>}
    /\ Cuts
    /\ IF visitor = <<"abort">> THEN aborted' = TRUE /\ UNCHANGED over ELSE over' = TRUE /\ UNCHANGED aborted
    /\ visitor' = <<"return">>
    /\ UNCHANGED <<active, waiting, place, chains, opened, course, failed, point, frame, listening, left>>

NoteDrainedAtOnce ==
    /\ label' = <<"note", "drained">>
    /\ visitor = <<"dispose">>
    /\ ~active
    /\ over' = TRUE
    /\ visitor' = <<"return">>
    /\ UNCHANGED <<active, aborted, waiting, place, chains, opened, course, failed, point, frame, listening, left>>

ReturnFromVisit ==
    /\ label' = <<"leave", "return", "null">>
    /\ \/ visitor = <<"return">> /\ UNCHANGED <<aborted, over>>
       \/ visitor = <<"abort">> /\ ~Cuts /\ aborted' = TRUE /\ UNCHANGED over
       \/ visitor = <<"dispose">> /\ ~Cuts /\ active /\ over' = TRUE /\ UNCHANGED aborted
    /\ visitor' = Nothing
    /\ UNCHANGED <<active, waiting, place, chains, opened, course, failed, point, frame, listening, left>>

RaiseBusy ==
    /\ label' = <<"leave", "raise", "busy">>
    /\ visitor = <<"busy">>
    /\ visitor' = Nothing
    /\ UNCHANGED <<machine, course, failed, point, frame, listening, left>>

-----------------------------------------------------------------------------
Init ==
    /\ over = FALSE /\ active = FALSE /\ aborted = FALSE /\ waiting = FALSE
    /\ place = <<0, 0>> /\ chains = <<>> /\ opened = 0
    /\ coursePlace = <<0, 0>> /\ courseActive = FALSE /\ courseCancelled = FALSE
    /\ courseSaid = "" /\ courseGoesOn = FALSE
    /\ left = [failures |-> Failures, steps |-> Steps, cancels |-> Cancels, ends |-> Ends,
               refusals |-> Refusals, doubles |-> Doubles]
    /\ failed = Nothing /\ point = Nothing /\ frame = Nothing /\ listening = FALSE /\ visitor = Nothing
    /\ label = <<>>

Recoveries ==
    \/ ParkDownstream \/ Warn \/ AppendRetry \/ RefuseRetry \/ ParkWait \/ AppendStarted \/ RefuseStarted
    \/ NoteDrained \/ Give

Visits == NoteCut \/ NoteDrainedAtOnce \/ ReturnFromVisit \/ RaiseBusy

Surroundings ==
    \/ \E said \in {"retry", "none", "throws"} : AnswerDownstream(said)
    \/ \E how \in {"elapsed", "cut"} : AnswerWait(how)
    \/ \E where \in Places :
        \/ \E i \in DOMAIN Routes, what \in FailuresOf : Recover(Failed(where, Routes[i], what, FALSE))
        \/ \E i \in {1, 4} : Recover(Failed(where, Routes[i], <<"SERVER", 0, 0>>, TRUE))
    \/ RecoverAgain \/ Abort \/ Dispose

Next == (Steps0 /\ Recoveries) \/ Visits \/ Surroundings

Spec == Init /\ [][Next]_vars
=============================================================================
