------------------------------- MODULE Request -------------------------------
(***************************************************************************)
(* The requests of a loop, in format 0: what is proposed, who prepares and *)
(* serves it, which records are due, and what leaves.                      *)
(*                                                                         *)
(* Written from agent-loop.md 9 to 11 (L-REQ, L-STR, L-ERR) and            *)
(* llm-and-tools.md 4 and 16.2 (M-411 to M-449, INV-L4, INV-L5).           *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
    Steps, Changes, Resumes, Listeners, Adapters, Touches, Failures, Cancels, Refusals, Faults, \* how often each may happen
    Broken          \* names of guards that are out of force

VARIABLES
    aborted,        \* the turn is cancelled
    step,           \* steps opened so far
    headed,         \* this loop has written a header
    head,           \* the folded header: <<config, marks, system, tools>>, or "null"
    context,        \* the last context: <<provider, model, window>>, or "null"
    messages,       \* changes of the surface so far
    generation,     \* those of them that replaced something
    prompt,         \* format 4 only
    system, tools,  \* of the step
    routes,         \* <<provider, registration>>, by provider
    left,           \* what the surroundings may still do
    derived,        \* the surface as it was when the attempt began (M-449)
    config,         \* the config of the attempt, and what the preparation has added to it
    marks, window,
    bound,          \* the registration of the prepared call, 0: none
    repaired,       \* the history was repaired since the last answer
    sent,           \* the generation at the last request of this loop, -1 before it (S-REQ-21: what format 4 compares)
    isHeaded, isTold, \* the log has a header, a context
    fresh,          \* registration 3 has not been used
    point,          \* where the attempt waits
    frame,          \* what it does next
    listening,      \* the observers of its last record run
    label           \* the label of the last move; read by nobody

log == <<head, context, messages, generation, prompt>>
attempt == <<derived, config, marks, window, bound>>
control == <<repaired, sent, isHeaded, isTold, fresh, point, frame, listening>>
view == <<aborted, step, headed, log, system, tools, routes, left, attempt, control>>
vars == <<view, label>>

Guarded(guard) == guard \notin Broken
Spends(budget) == left[budget] > 0 /\ left' = [left EXCEPT ![budget] = @ - 1]

(***************************************************************************)
(* Registrations.                                                          *)
(***************************************************************************)

Providers == {"a", "b"}
DefaultEffort == <<"low", "", "high">>
Efforts == <<{"low", "high"}, {"low"}, {"low", "high"}>>
DefaultCap == <<10, 20, 10>>
Window == <<100, 0, 100>>

Serving(provider) ==
    IF \E i \in DOMAIN routes : routes[i][1] = provider
    THEN routes[CHOOSE i \in DOMAIN routes : routes[i][1] = provider][2] ELSE 0

\* M-411, L-REQ-15  What the adapter fills in, and the marks that tell it.
Completed(r) ==
    <<config[1], config[2], IF config[3] = "" THEN DefaultEffort[r] ELSE config[3],
      IF config[4] = 0 THEN DefaultCap[r] ELSE config[4]>>
Marked(r) ==
    (IF config[4] = 0 THEN <<"maxTokens">> ELSE <<>>)
    \o (IF config[3] = "" /\ DefaultEffort[r] # "" THEN <<"reasoningEffort">> ELSE <<>>)

\* M-412
Supports(r) == Completed(r)[3] = "" \/ Completed(r)[3] \in Efforts[r]

Has(names, name) == \E i \in DOMAIN names : names[i] = name

(***************************************************************************)
(* Proposal, header, context.                                              *)
(***************************************************************************)

Options == <<"a", "m", "", 0>>

\* L-REQ-3, L-REQ-4, M-446
Seed ==
    IF ~headed
    THEN <<Options[1], Options[2],
           IF isHeaded /\ head[1][1] = Options[1] /\ head[1][2] = Options[2] /\ ~Has(head[2], "reasoningEffort")
           THEN head[1][3] ELSE "",
           Options[4]>>
    ELSE <<head[1][1], head[1][2],
           IF Has(head[2], "reasoningEffort") THEN "" ELSE head[1][3],
           IF Has(head[2], "maxTokens") THEN 0 ELSE head[1][4]>>

Proposed == <<config, marks, system, tools>>

\* L-REQ-9, L-REQ-10, L-REQ-12
HeaderIsDue == IF headed THEN head # Proposed ELSE TRUE
Reason == IF headed THEN "change" ELSE IF isHeaded THEN "resume" ELSE "initial"

\* L-REQ-11
Told == <<config[1], config[2], window>>
\* A header counts when its observers are done.
Headed == headed \/ (frame # <<>> /\ frame[1] = "headed")

ContextIsDue == IF isTold THEN context # Told ELSE TRUE

(***************************************************************************)
(* The attempt.                                                            *)
(***************************************************************************)

Running == frame # <<>>
Is(what) == Running /\ frame[1] = what
Outside == ~Running
Waits(where) == Outside /\ point # <<>> /\ point[1] = where

Park(where) == point' = where /\ frame' = <<>> /\ listening' = FALSE
GoOn(what) == point' = <<>> /\ frame' = what /\ listening' = FALSE
Heard(what) == point' = <<>> /\ frame' = what /\ listening' = TRUE
\* The step raises; the frame remembers what has ended the attempt.
Raise(why) == GoOn(<<"raise", why>>)

Scenery == <<system, tools, routes, fresh>>
Told0 == <<isHeaded, isTold>>
Check == aborted /\ Guarded("signal")

\* M-449, L-REQ-1  Messages are derived first.
ParkRequest ==
    /\ Is("begin") /\ ~Check
    /\ label' = <<"park", "request">> \o Seed
    /\ derived' = messages
    /\ config' = Options /\ marks' = <<>> /\ window' = 0 /\ bound' = 0
    /\ Park(<<"request", Seed>>)
    /\ UNCHANGED <<aborted, step, headed, log, left, repaired, sent, Scenery, Told0>>

OtherProvider(provider) == IF provider = "a" THEN "b" ELSE "a"
Wishes(seed) ==
    {<<seed[1], seed[2], "high", seed[4]>>, <<seed[1], seed[2], seed[3], 10>>,
     <<OtherProvider(seed[1]), seed[2], seed[3], seed[4]>>, <<OtherProvider(seed[1]), seed[2], "low", seed[4]>>}

AnswerRequest(wish) ==
    /\ Waits("request")
    /\ label' = <<"answer", "request">> \o wish
    /\ IF wish = point[2] THEN UNCHANGED left ELSE Spends("listeners")
    /\ config' = wish
    /\ GoOn(<<"proposed">>)
    /\ UNCHANGED <<aborted, step, headed, log, derived, marks, window, bound, repaired, sent, Scenery, Told0>>

\* L-REQ-6, M-448
AnswerRequestWithNothing ==
    /\ Waits("request")
    /\ label' = <<"answer", "request", "throws">>
    /\ Spends("listeners")
    /\ Raise("request")
    /\ UNCHANGED <<aborted, step, headed, log, attempt, repaired, sent, Scenery, Told0>>

ParkPrepare ==
    /\ Is("proposed") /\ ~Check
    /\ label' = <<"park", "prepare">>
    /\ Park(<<"prepare">>)
    /\ UNCHANGED <<aborted, step, headed, log, left, attempt, repaired, sent, Scenery, Told0>>

\* M-420, M-422  The route is looked up before anything is asked; without one the proposal stays what it is.
LookUp ==
    /\ Waits("prepare")
    /\ LET r == Serving(config[1])
       IN  /\ label' = <<"prepare", r>>
           /\ bound' = r
           /\ marks' = <<>> /\ window' = 0
           /\ IF r = 0 THEN GoOn(<<"prepared">>) ELSE Park(<<"resolving">>)
    /\ UNCHANGED <<aborted, step, headed, log, left, derived, config, repaired, sent, Scenery, Told0>>

Resolve ==
    /\ Waits("resolving")
    /\ Supports(bound)
    /\ label' = <<"resolved", bound>>
    /\ config' = Completed(bound) /\ marks' = Marked(bound) /\ window' = Window[bound]
    /\ GoOn(<<"prepared">>)
    /\ UNCHANGED <<aborted, step, headed, log, left, derived, bound, repaired, sent, Scenery, Told0>>

\* M-423, L-REQ-7  Not offered to recovery.
FailToResolve ==
    /\ Waits("resolving")
    /\ label' = <<"unresolved", bound>>
    /\ IF Supports(bound) THEN Spends("faults") ELSE UNCHANGED left
    /\ Raise("prepare")
    /\ UNCHANGED <<aborted, step, headed, log, attempt, repaired, sent, Scenery, Told0>>

Record(name) == <<name, Reason, config, marks, system, tools>>

WriteHeader(written) ==
    /\ Is("prepared") /\ ~Check /\ HeaderIsDue
    /\ label' = <<IF written THEN "append" ELSE "refuse", "request/header", Reason, config, marks, system, tools>>
    /\ IF written
       THEN head' = Proposed /\ isHeaded' = TRUE /\ Heard(<<"headed">>) /\ UNCHANGED left
       ELSE Spends("refusals") /\ Raise("header") /\ UNCHANGED <<head, isHeaded>>
    /\ UNCHANGED <<aborted, step, headed, context, messages, generation, prompt, attempt, repaired, sent, isTold, Scenery>>

\* L-REQ-12, CW8  No check between header and context.
WriteContext(written) ==
    /\ Is("headed") \/ (Is("prepared") /\ ~Check /\ ~HeaderIsDue)
    /\ ContextIsDue
    /\ label' = <<IF written THEN "append" ELSE "refuse", "request/context", config[1], config[2], window>>
    /\ IF written
       THEN context' = Told /\ isTold' = TRUE /\ Heard(<<"told">>) /\ UNCHANGED left
       ELSE Spends("refusals") /\ Raise("context") /\ UNCHANGED <<context, isTold>>
    /\ headed' = Headed
    /\ UNCHANGED <<aborted, step, head, messages, generation, prompt, attempt, repaired, sent, isHeaded, Scenery>>

IsTold ==
    \/ Is("told")
    \/ Is("headed") /\ ~ContextIsDue
    \/ Is("prepared") /\ ~Check /\ ~HeaderIsDue /\ ~ContextIsDue

ParkChunk ==
    /\ \/ IsTold /\ ~Check /\ Park(<<"chunk", FALSE, "unsent">>) /\ label' = <<"park", "chunk", FALSE>>
       \/ Is("chunk") /\ Park(<<"chunk", TRUE, "served">>) /\ label' = <<"park", "chunk", TRUE>>
    /\ headed' = Headed
    /\ UNCHANGED <<aborted, step, log, left, attempt, repaired, sent, Scenery, Told0>>

\* M-421, M-434, INV-L5  A prepared call is served by the registration that prepared it, another one by whoever serves now.
Server == IF bound # 0 /\ Guarded("binding") THEN bound ELSE Serving(config[1])

Send ==
    /\ Waits("chunk") /\ point[3] = "unsent"
    /\ label' = <<"send", Server, config, derived, system, tools>>
    /\ Park(<<"chunk", FALSE, IF Server = 0 THEN "alone" ELSE "served">>)
    /\ sent' = generation
    /\ UNCHANGED <<aborted, step, headed, log, left, attempt, repaired, Scenery, Told0>>

AnswerChunk ==
    /\ Waits("chunk") /\ point[3] = "served" /\ ~point[2]
    /\ label' = <<"answer", <<"chunk", FALSE>>, <<"chunk">>>>
    /\ GoOn(<<"pulled">>)
    /\ UNCHANGED <<aborted, step, headed, log, left, attempt, repaired, sent, Scenery, Told0>>

\* L-STR-1, L-STR-2
WriteChunk(written) ==
    /\ Is("pulled") /\ ~Check
    /\ label' = <<IF written THEN "append" ELSE "refuse", "assistant/chunk">>
    /\ IF written THEN Heard(<<"chunk">>) /\ UNCHANGED left ELSE Spends("refusals") /\ GoOn(<<"vetoed">>)
    /\ UNCHANGED <<aborted, step, headed, log, attempt, repaired, sent, Scenery, Told0>>

ParkClose ==
    /\ Is("vetoed") \/ (Is("pulled") /\ Check)
    /\ label' = <<"park", "close", FALSE>>
    /\ Park(<<"close", frame[1]>>)
    /\ UNCHANGED <<aborted, step, headed, log, left, attempt, repaired, sent, Scenery, Told0>>

AnswerClose ==
    /\ Waits("close")
    /\ label' = <<"answer", <<"close", FALSE>>, <<"closed", FALSE>>>>
    /\ Raise(point[2])
    /\ UNCHANGED <<aborted, step, headed, log, left, attempt, repaired, sent, Scenery, Told0>>

EndWell ==
    /\ Waits("chunk") /\ point[2]
    /\ label' = <<"answer", <<"chunk", TRUE>>, <<"end", "stop", FALSE, TRUE>>>>
    /\ repaired' = FALSE
    /\ GoOn(<<"ended">>)
    /\ UNCHANGED <<sent, aborted, step, headed, log, left, attempt, Scenery, Told0>>

EndBadly(code) ==
    /\ Waits("chunk") /\ point[3] # "unsent"
    /\ IF point[3] = "alone"
       THEN code = "" /\ label' = <<"answer", <<"chunk", FALSE>>, <<"end", "failure", FALSE, FALSE>>>> /\ UNCHANGED left
       ELSE /\ code # ""
            /\ Spends("failures")
            /\ label' = <<"answer", <<"chunk", point[2]>>, <<"end", "failure", FALSE, point[2]>>, code>>
    /\ GoOn(<<"failed", code, point[2]>>)
    /\ UNCHANGED <<aborted, step, headed, log, attempt, repaired, sent, Scenery, Told0>>

\* L-STR-4, L-STR-9  The anchor; after a cancel one that is marked, if there is text.
IsCutShort == Check /\ (Is("ended") \/ (Is("failed") /\ frame[3]))
Ended == IF Is("failed") THEN frame[2] ELSE "answer"

WriteMessage(written) ==
    /\ (Is("ended") /\ ~Check) \/ IsCutShort
    /\ label' = <<IF written THEN "append" ELSE "refuse", "assistant/message",
                  IF IsCutShort THEN "interrupted" ELSE "settled">>
    /\ IF written
       THEN /\ messages' = messages + 1
            /\ Heard(IF IsCutShort THEN <<"raise", Ended>> ELSE <<"complete">>)
            /\ UNCHANGED left
       ELSE Spends("refusals") /\ Raise(Ended) /\ UNCHANGED messages
    /\ UNCHANGED <<aborted, step, headed, head, context, generation, prompt, attempt, repaired, sent, Scenery, Told0>>

ParkRecovery ==
    /\ Is("failed") /\ ~Check
    /\ label' = <<"park", "recovery">>
    /\ Park(<<"recovery", frame[2]>>)
    /\ UNCHANGED <<aborted, step, headed, log, left, attempt, repaired, sent, Scenery, Told0>>

AnswerRecovery(answer) ==
    /\ Waits("recovery")
    /\ answer = "retry" => point[2] = "SERVER"
    /\ label' = <<"answer", <<"recovery">>, <<answer>>>>
    /\ GoOn(IF answer = "retry" THEN <<"begin">> ELSE <<"raise", "recovery">>)
    /\ UNCHANGED <<aborted, step, headed, log, left, attempt, repaired, sent, Scenery, Told0>>

\* M-705
Repair(replaced) ==
    /\ Waits("recovery") /\ point[2] = "CONTEXT_WINDOW_EXCEEDED"
    /\ ~aborted /\ ~repaired
    /\ label' = <<"repair", replaced, "answer", <<"recovery">>, <<IF replaced THEN "retry" ELSE "none">>>>
    /\ repaired' = TRUE
    /\ IF replaced
       THEN messages' = messages + 1 /\ generation' = generation + 1 /\ GoOn(<<"begin">>)
       ELSE UNCHANGED <<messages, generation>> /\ Raise("recovery")
    /\ UNCHANGED <<sent, aborted, step, headed, head, context, prompt, left, attempt, Scenery, Told0>>

Raises ==
    \/ Is("raise")
    \/ Check /\ (Is("begin") \/ Is("proposed") \/ Is("prepared") \/ IsTold)
    \/ Check /\ Is("failed") /\ ~frame[3]

Leave ==
    /\ Raises \/ Is("complete")
    /\ label' = <<"leave", "step", IF Is("complete") THEN "completed" ELSE "raised">>
    /\ Park(<<>>)
    /\ derived' = 0 /\ config' = Options /\ marks' = <<>> /\ window' = 0 /\ bound' = 0
    /\ headed' = Headed
    /\ UNCHANGED <<aborted, step, log, left, repaired, sent, Scenery, Told0>>

(***************************************************************************)
(* The surroundings.                                                       *)
(***************************************************************************)

Resting == Outside /\ point = <<>>

Open(how) ==
    /\ Resting
    /\ label' = <<"open", how>>
    /\ CASE how = "same" -> Spends("steps")
         [] how \in {"prompt", "tools"} -> Spends("changes")
         [] how = "resumed" -> step > 0 /\ Spends("resumes")
    /\ system' = IF how = "prompt" THEN (IF system = "s1" THEN "s2" ELSE "s1") ELSE system
    /\ tools' = IF how = "tools" THEN (IF tools = "t1" THEN "t2" ELSE "t1") ELSE tools
    /\ headed' = (headed /\ how # "resumed")
    /\ repaired' = (repaired /\ how # "resumed")
    /\ sent' = IF how = "resumed" THEN -1 ELSE sent
    /\ aborted' = FALSE
    /\ step' = step + 1
    /\ messages' = messages + 1
    /\ GoOn(<<"begin">>)
    /\ UNCHANGED <<head, context, generation, prompt, routes, fresh, attempt, Told0>>

Interrupting == (Running /\ listening) \/ (Outside /\ point # <<>>)

Abort ==
    /\ Interrupting /\ ~aborted
    /\ label' = <<"abort">>
    /\ Spends("cancels")
    /\ aborted' = TRUE
    /\ UNCHANGED <<step, headed, log, attempt, repaired, sent, point, frame, listening, Scenery, Told0>>

Routed(provider, r) ==
    LET others == SelectSeq(routes, LAMBDA one : one[1] # provider)
        before == SelectSeq(others, LAMBDA one : one[1] = "a")
        behind == SelectSeq(others, LAMBDA one : one[1] = "b")
    IN  IF r = 0 THEN others
        ELSE IF provider = "a" THEN <<<<provider, r>>>> \o behind ELSE before \o <<<<provider, r>>>>

RemoveAdapter(provider) ==
    /\ Interrupting \/ Resting
    /\ Serving(provider) # 0
    /\ label' = <<"adapters", "remove", provider>>
    /\ Spends("adapters")
    /\ routes' = Routed(provider, 0)
    /\ UNCHANGED <<aborted, step, headed, log, attempt, control, system, tools>>

AddAdapter(provider) ==
    /\ Interrupting \/ Resting
    /\ fresh
    /\ label' = <<"adapters", IF Serving(provider) = 0 THEN "add" ELSE "replace", provider, 3>>
    /\ Spends("adapters")
    /\ routes' = Routed(provider, 3)
    /\ fresh' = FALSE
    /\ UNCHANGED <<aborted, step, headed, log, attempt, repaired, sent, point, frame, listening, system, tools, Told0>>

Touch(how) ==
    /\ Outside /\ point # <<>>
    /\ label' = <<"touch", how>>
    /\ Spends("touches")
    /\ messages' = messages + 1
    /\ generation' = IF how = "replace" THEN generation + 1 ELSE generation
    /\ UNCHANGED <<aborted, step, headed, head, context, prompt, attempt, control, system, tools, routes>>

-----------------------------------------------------------------------------
Init ==
    /\ aborted = FALSE /\ step = 0 /\ headed = FALSE
    /\ head = "null" /\ context = "null" /\ messages = 0 /\ generation = 0 /\ prompt = ""
    /\ system = "s1" /\ tools = "t1"
    /\ routes = <<<<"a", 1>>, <<"b", 2>>>>
    /\ left = [steps |-> Steps, changes |-> Changes, resumes |-> Resumes, listeners |-> Listeners, adapters |-> Adapters,
               touches |-> Touches, failures |-> Failures, cancels |-> Cancels, refusals |-> Refusals, faults |-> Faults]
    /\ derived = 0 /\ config = Options /\ marks = <<>> /\ window = 0 /\ bound = 0
    /\ repaired = FALSE /\ sent = -1 /\ isHeaded = FALSE /\ isTold = FALSE /\ fresh = TRUE /\ point = <<>> /\ frame = <<>> /\ listening = FALSE
    /\ label = <<>>

Attempt ==
    \/ ParkRequest \/ ParkPrepare \/ LookUp \/ Resolve \/ ParkChunk \/ Send \/ ParkClose \/ ParkRecovery \/ Leave
    \/ \E written \in BOOLEAN :
        WriteHeader(written) \/ WriteContext(written) \/ WriteChunk(written) \/ WriteMessage(written)

Surroundings ==
    \/ \E wish \in (IF Waits("request") THEN {point[2]} \cup Wishes(point[2]) ELSE {}) : AnswerRequest(wish)
    \/ AnswerRequestWithNothing \/ FailToResolve \/ AnswerChunk \/ AnswerClose \/ EndWell
    \/ \E code \in {"", "SERVER", "CONTEXT_WINDOW_EXCEEDED"} : EndBadly(code)
    \/ \E answer \in {"none", "retry"} : AnswerRecovery(answer)
    \/ \E replaced \in BOOLEAN : Repair(replaced)
    \/ \E how \in {"same", "prompt", "tools", "resumed"} : Open(how)
    \/ Abort
    \/ \E provider \in Providers : RemoveAdapter(provider) \/ AddAdapter(provider)
    \/ \E how \in {"append", "replace"} : Touch(how)

Next == Attempt \/ Surroundings

Spec == Init /\ [][Next]_vars
=============================================================================
