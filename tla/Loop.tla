-------------------------------- MODULE Loop --------------------------------
(***************************************************************************)
(* The whole loop, seen by a bystander, keeps promises 1 to 3 of AgentLoop.*)
(*                                                                         *)
(* Here the tools of a step are one await point of the driver; LoopBatch   *)
(* puts the scheduler in its place.                                        *)
(*                                                                         *)
(* The bystander reads labels and nothing else: the records of the log,    *)
(* the live events, and what somebody called or answered.  So no claim     *)
(* here is judged by the field of the machine that it is about.            *)
(***************************************************************************)
EXTENDS MCDriver, BatchLaw

CONSTANT
  BatchCalls  \* how many calls an answer with tool calls has

VARIABLE seen
loopView == <<view, seen>>
loopVars == <<vars, seen>>

Sent == 1..Messages

Blank ==
  [status |-> "idle", woken |-> FALSE, due |-> FALSE, doomed |-> FALSE,
   fate |-> [m \in Sent |-> "unsent"], steps |-> <<>>, turns |-> <<>>, prompts |-> 0,
   openTurn |-> 0, lastTurn |-> 0, openStep |-> 0, lastStep |-> 0, cause |-> "", said |-> "",
   asking |-> FALSE, owed |-> {}, calls |-> FALSE, finish |-> "", maxed |-> FALSE]

-----------------------------------------------------------------------------
(* What each kind of label tells.                                          *)

(* A result that nobody owes is owed for ever, so that it shows.           *)
Answered(owed, call) == IF call \in owed THEN owed \ {call} ELSE owed \cup {0}

(* A record of the inbox: who went, who came.                              *)
SeeSplice(s, target, start, count, inserted, outcome) ==
  LET before == [nextStep |-> s.steps, nextTurn |-> s.turns]
      gone   == Range(SubSeq(Pending(before, target), start + 1, start + count))
      after  == Replayed(before, target, start, count, inserted)
  IN [s EXCEPT
        !.steps = after.nextStep,
        !.turns = after.nextTurn,
        !.prompts = IF target = "next-turn" /\ outcome = "" THEN @ + count ELSE @,
        !.fate = [m \in Sent |-> IF IsIn(inserted, m) THEN "pending"
                                 ELSE IF m \in gone THEN "taken" ELSE @[m]]]

SeeRecord(s, l) ==
  CASE l[2] = "agent/inbox/spliced" -> SeeSplice(s, l[3], l[4], l[5], l[6], l[7])
    [] l[2] = "turn/start" ->
         [s EXCEPT !.openTurn = l[3], !.lastTurn = l[3], !.openStep = 0, !.lastStep = 0,
                   !.prompts = 0, !.maxed = FALSE, !.said = ""]
    [] l[2] = "turn/end" ->
         [s EXCEPT !.openTurn = 0,
                   !.said = CASE l[4] = "aborted" -> l[5] [] l[4] = "error" -> "error" [] OTHER -> "ordinary"]
    [] l[2] = "step/start" -> [s EXCEPT !.openStep = l[4], !.lastStep = l[4]]
    [] l[2] = "step/end"   -> [s EXCEPT !.openStep = 0, !.asking = FALSE, !.calls = FALSE, !.finish = ""]
    [] l[2] = "user/message" -> [s EXCEPT !.fate[l[3]] = "entered"]
    [] l[2] = "assistant/message" ->
         [s EXCEPT !.asking = FALSE,
                   !.owed = IF l[3] = "settled" /\ s.calls THEN 1..BatchCalls ELSE {},
                   !.maxed = @ \/ (l[3] = "settled" /\ s.finish = "max-tokens")]
    [] l[2] = "tool/result" -> [s EXCEPT !.owed = Answered(@, l[3])]
    [] l[2] = "assistant/attempt" -> [s EXCEPT !.asking = FALSE]
    [] OTHER -> s

SeeEvent(s, l) ==
  CASE l[2] = "agent/inbox/claimed"   -> [s EXCEPT !.fate[l[3]] = "claimed"]
    [] l[2] = "agent/inbox/discarded" -> [s EXCEPT !.fate[l[3]] = "discarded"]
    [] l[2] = "agent/status" ->
         IF l[3] = "running" THEN [s EXCEPT !.status = "running", !.woken = FALSE, !.due = FALSE]
         ELSE [s EXCEPT !.status = "idle", !.cause = "", !.woken = @ /\ ~s.doomed,
                        !.due = @ /\ ~s.doomed, !.doomed = FALSE]
    [] l[2] = "abort" -> [s EXCEPT !.cause = l[3]]
    [] l[2] = "agent/assistant-stream" -> [s EXCEPT !.asking = @ \/ l[3] = "start"]
    [] OTHER -> s

(* L-SEND-3, L-WAKE-3: a wake after an abort is due later; a clearing      *)
(* cancel of a run takes back what was asked before.                       *)
SeeCall(s, l) ==
  CASE l[2] = "send" /\ l[5] ->
         [s EXCEPT !.woken = TRUE,
                   !.due = @ \/ (s.status = "running" /\ s.cause # "" /\ ~s.doomed)]
    [] l[2] = "cancel" ->
         [s EXCEPT !.woken = @ /\ (l[4] \/ s.status = "idle"),
                   !.due = @ /\ l[4],
                   !.doomed = @ \/ (l[3] = "disposed" /\ s.status = "running")]
    [] OTHER -> s

SeeAnswer(s, point, answer) ==
  CASE point[1] = "chunk" /\ answer[1] = "end" ->
         [s EXCEPT !.finish = answer[2], !.calls = answer[3] /\ answer[2] # "max-tokens"]
    [] point[1] = "tools" ->
         [s EXCEPT !.owed = IF answer[1] = "throws" /\ ~FailedBatchIsCompleted THEN @ ELSE {}]
    [] OTHER -> s

SeePark(s, l) ==
  CASE l[2] = "chunk" /\ ~l[3] -> [s EXCEPT !.asking = TRUE]
    [] l[2] = "recovery"       -> [s EXCEPT !.asking = FALSE]
    [] OTHER -> s

See(s, l) ==
  CASE l[1] = "append" -> SeeRecord(s, l)
    [] l[1] = "notify" -> SeeEvent(s, l)
    [] l[1] \in {"call", "begin"} -> SeeCall(s, l)
    [] l[1] = "answer" -> SeeAnswer(s, l[2], l[3])
    [] l[1] = "park"   -> SeePark(s, l)
    [] l[1] = "note"   -> [s EXCEPT !.cause = "", !.doomed = FALSE]
    [] l[1] = "refuse" -> [s EXCEPT !.due = FALSE]
    [] OTHER -> s

LoopInit == Init /\ seen = Blank
LoopNext == Next /\ seen' = See(seen, label')
LoopSpec == LoopInit /\ [][LoopNext]_loopVars

-----------------------------------------------------------------------------
(* The refinement.                                                         *)

(* L-IN-14: what a refused record has taken is the one exception.          *)
AtRest == Quiet /\ left.refusals = Refusals

Seen == INSTANCE AgentLoop WITH
  Message <- Sent, status <- seen.status, woken <- seen.woken, due <- seen.due, resting <- AtRest, fate <- seen.fate,
  openTurn <- seen.openTurn, lastTurn <- seen.lastTurn, openStep <- seen.openStep, lastStep <- seen.lastStep,
  prompts <- seen.prompts, cause <- seen.cause, said <- seen.said, asking <- seen.asking, owed <- seen.owed,
  Object <- {}, life <- <<>>, over <- {}, request <- <<>>, told <- <<>>, tape <- <<>>, compactions <- 0

NoMessageIsLost == Seen!NoMessageIsLost
EachCallIsAnswered == Seen!EachCallIsAnswered
TurnsAndStepsNest == Seen!TurnsAndStepsNest

-----------------------------------------------------------------------------
(* What else must hold.                                                    *)

(* LI-9.                                                                   *)
IdsAreDistinct == Distinct(nextTurn \o nextStep)

(* LI-10: the lists are what their records say, but for a record that is   *)
(* still being published (not even then, if observers see the lists after).*)
Mutating == \E i \in 1..Len(stack) : stack[i].frame[1] = "project"
ListsAreTheirRecords == Mutating \/ (nextStep = seen.steps /\ nextTurn = seen.turns)

(* L-IN-17: the records that are written can be replayed.                  *)
RecordsReplay ==
  [][(label'[1] = "append" /\ label'[2] = "agent/inbox/spliced")
     => CanReplay([nextStep |-> seen.steps, nextTurn |-> seen.turns],
                  label'[3], label'[4], label'[5], label'[6])]_loopVars

(* LI-23: who is idle has closed everything.                               *)
IdleIsBalanced == Quiet => seen.openTurn = 0 /\ seen.openStep = 0 /\ seen.status = "idle"

(* LI-5: at rest nothing is on its way; L-IN-14 is the one exception.      *)
NothingVanishes == (Quiet /\ left.refusals = Refusals) => \A m \in Sent : seen.fate[m] # "taken"

(* LI-33: at rest no wake is due that has something to run.                *)
NothingDueIsForgotten == (Quiet /\ seen.due) => nextStep \o nextTurn = <<>>

(* LI-21: max-tokens is absorbing, but for blocked, aborted and error.     *)
MaxTokensIsSticky ==
  [][(label'[1] = "append" /\ label'[2] = "turn/end" /\ label'[4] = "completed") => ~seen.maxed]_loopVars

(* L-SEND-4: a waking message after an abort becomes a prompt.             *)
Sending == Runs /\ Top.frame[1] = "send"
LateWakeIsPrompt ==
  [][(Sending /\ label'[1] = "append" /\ label'[2] = "agent/inbox/spliced"
      /\ Top.frame[4] /\ phase # "idle" /\ signal # "") => label'[3] = "next-turn"]_loopVars

(* L-WAKE-6: with nothing pending nothing is replayed.                     *)
NoEmptyReplay ==
  [][(Runs /\ Top.frame[1] = "replay" /\ label'[1] = "note") => HasPending(core)]_loopVars

-----------------------------------------------------------------------------
(* Runs that anybody can play over the conformance protocol: calls come    *)
(* from where a gate holds the loop or somebody is told something, and     *)
(* answers are outcomes of gates, of a stream that has begun.              *)

NobodyIsThere ==
  \/ Runs /\ Top.frame[1] = "job called"
  \/ ~Runs /\ \E i \in 1..Len(parked) : parked[i].point[1] \in {"gap", "tick", "tools"}

PlayableAnswer ==
  LET point == label'[2]
      answer == label'[3]
  IN CASE point[1] = "tools" -> answer[1] # "throws"
       [] point[1] = "chunk" -> answer[1] = "end" /\ ~point[2] => answer[2] = "stop" /\ ~answer[3]
       [] OTHER -> TRUE

Playable ==
  /\ label'[1] \in {"call", "wait"} => ~NobodyIsThere
  /\ label'[1] = "answer" => PlayableAnswer

-----------------------------------------------------------------------------
(* What must be reachable; each is checked as an invariant that must fail. *)

(* LR-045, L-WAKE-13: a listener of idle starts the next run by itself.    *)
NestedRun == ~(Len(stack) = 2 /\ stack[1].frame[1] = "replay" /\ stack[1].frame[2]
               /\ label = <<"notify", "agent/status", "running">>)
(* LR-030: a late wake is replayed.                                        *)
LateWakeRuns == ~(Runs /\ Top.frame[1] = "run started" /\ seen.lastTurn > 0 /\ seen.due)
(* LR-052: the batch of a turn that is cancelled at once is lost.          *)
LostBatch == ~(Quiet /\ \E m \in Sent : seen.fate[m] = "claimed" /\ seen.lastStep = 0)
(* LR-092, LR-084: a wake that came before a rejection or failure parks.   *)
ParkedWake == ~(Quiet /\ seen.woken /\ nextTurn # <<>> /\ seen.lastTurn > 0)
(* LR-177, L-TURN-11: after a step of max-tokens the results of a later     *)
(* one are not answered: an answer is owed, and the turn is about to end.  *)
Unanswered == ~(/\ Runs /\ Top.frame[1] = "step closed" /\ Top.frame[2] = "" /\ Top.window = "log"
                /\ seen.maxed /\ nextStep = <<>> /\ signal = "")
(* CW19: the next turn of a run never opens.                               *)
NeverOpened == ~(Runs /\ seen.lastTurn > 0 /\ seen.openTurn = 0 /\ phase = "running" /\ closing
                 /\ seen.cause # "" /\ label[1] = "answer")
(* LR-046: a due wake moves behind a job.                                  *)
BehindJob == ~(phase = "maintenance" /\ latch /\ seen.lastTurn > 0)
=============================================================================
