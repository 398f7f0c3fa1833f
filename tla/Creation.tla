------------------------------ MODULE Creation ------------------------------
(***************************************************************************)
(* Creation and the end of agents: the create and resume transactions, the *)
(* two registries, announcement, owners, and the one teardown.             *)
(*                                                                         *)
(* An action here is one effect of one synchronous segment (C- 22.1).      *)
(* Between two effects, in the window of a dispatch, listeners run and may *)
(* call back.  A segment ends by returning or by waiting at an await       *)
(* point.  A transaction is one routine from its call to its end:          *)
(*                                                                         *)
(*   prepare, mint, build, setup ... commit, enter, announce, start,       *)
(*   live ... cancel, drain ... unwind ... detach agent, detach session    *)
(*                                                                         *)
(* and a failure anywhere jumps from the first line to the second: the     *)
(* rollback IS the teardown (C-RBK-1).                                     *)
(***************************************************************************)
EXTENDS Integers, Sequences, FiniteSets

CONSTANTS
  \* who may do what at all
  Verbs, Flaws, Owners, Fibers, Requests, Events, Setups, Kinds,
  \* how often
  Creates, Ids, Callers, Aborts, Disposals, Unloads, Wakes, Waits,
  Registrations, Detaches, Appends, Escapes, Stale, Inner,
  Depth,
  \* where the sources disagree (C- 22)
  DriverWaitsForPublication, EveryOwnerJoins, ProviderKeepsOrder,
  DetachesAreUnconditional, ClosingWakeIsRefusedWhole, DisposedAgentIsSilent,
  StartNoticeIsContained, CreatedIsAwaited, DisposalOutlivesRefusal,
  \* the names of guards that are taken out, to see which property notices
  Broken

VARIABLES
  fibers,    \* 1: the agents service, 2: the provider, from 3: the callers
  members,   \* the transactions that have not ended
  sessions,  \* the session registry, in order of entry
  agents,    \* the agents registry, in order of entry
  threw,     \* an error came out of the dispatch whose window is open
  left,      \* what the environment may still spend
  stack,     \* the synchronous calls in progress, innermost last
  parked,    \* the routines that wait
  label      \* the label of the last move; read by nobody

core == <<fibers, members, sessions, agents>>
view == <<core, threw, left, stack, parked>>
vars == <<view, label>>

Intact(guard) == guard \notin Broken

-----------------------------------------------------------------------------
(* Routines.  A frame says where a routine stands, whom it is about, and   *)
(* what it remembers; `live' says that listeners of its last effect run.   *)

Frame(at, n, x) == [at |-> at, n |-> n, x |-> x, live |-> FALSE]
Runs  == stack # <<>>
Top   == stack[Len(stack)]
Below == SubSeq(stack, 1, Len(stack) - 1)

Notes(change, frame) ==
  /\ label' = <<"note">> \o change
  /\ stack' = Append(Below, frame)
  /\ UNCHANGED parked
Notifies(event, frame) ==
  /\ label' = <<"notify">> \o event
  /\ stack' = Append(Below, [frame EXCEPT !.live = TRUE])
  /\ UNCHANGED parked
Parks(point, x) ==
  /\ label' = <<"park">> \o point
  /\ stack' = Below
  /\ parked' = parked \cup {[point |-> point, x |-> x]}
Leaves(result) ==
  /\ label' = <<"leave">> \o result
  /\ stack' = Below
  /\ UNCHANGED parked

(* No effect of the machine costs anything, and an error that came out of  *)
(* a dispatch is dealt with by the very next effect.                       *)
Steps == threw' = FALSE /\ UNCHANGED left

Promise(n) == <<"return", <<"promise", n>>>>
Nothing == <<"return", "null">>

-----------------------------------------------------------------------------
(* Fibers and transactions.                                                *)

Service == 0
Provider == 1
Fiber(f) == fibers[f + 1]
FiberNumbers == 0 .. Len(fibers) - 1
WithFiber(f, state) == [fibers EXCEPT ![f + 1] = state]

Numbers == {m.number : m \in members}
Known(n) == n \in Numbers
M(n) == CHOOSE m \in members : m.number = n
With(m) == {o \in members : o.number # m.number} \cup {m}
Without(n) == {m \in members : m.number # n}

(* The teardown has settled, or the transaction is forgotten already.      *)
IsGone(n) == Known(n) => M(n).gone

(* C-OWN-1: the fiber behind an owner; that of an agent is its scope.      *)
OwnerState(owner) ==
  IF owner[1] = "fiber" THEN Fiber(owner[2])
  ELSE IF ~Known(owner[2]) THEN "gone"
  ELSE CASE M(owner[2]).scope = "open"      -> "active"
         [] M(owner[2]).scope = "unwinding" -> "unloading"
         [] OTHER                           -> "gone"

(* C-TXN-C3: the owner agent is the agent of the owner context.            *)
OwnerAgent(owner) == IF owner[1] = "agent" THEN owner[2] ELSE 0

IsBuilt(m) == m.driver # "absent"

-----------------------------------------------------------------------------
(* Registries: sequences of entries, in order of entry.                    *)

Entry(object, id, owner) ==
  [object |-> object, id |-> id, owner |-> owner, phase |-> "entered",
   leaving |-> FALSE, appending |-> FALSE]
Holds(registry, object) == \E i \in DOMAIN registry : registry[i].object = object
Occupied(registry, id) == \E i \in DOMAIN registry : registry[i].id = id
At(registry, object) == CHOOSE i \in DOMAIN registry : registry[i].object = object
EntryOf(registry, object) == registry[At(registry, object)]
Marked(registry, object, phase) == [registry EXCEPT ![At(registry, object)].phase = phase]
IsOther(entry, object) == entry.object # object
Removed(registry, object) ==
  LET others(entry) == entry.object # object IN SelectSeq(registry, others)

(* When the dispatch of the innermost call has unwound, its entry is no    *)
(* longer being announced (C-REGA-8, C-REGS-5); that joins the next effect.*)
AnnouncesSession == Top.at \in {"session announced", "session registered"}
AnnouncesAgent   == Top.at \in {"agent announced", "agent registered"}
Sessions ==
  IF AnnouncesSession /\ Holds(sessions, Top.n) THEN Marked(sessions, Top.n, "announced")
  ELSE IF Top.at = "appended" /\ Holds(sessions, Top.n)
  THEN [sessions EXCEPT ![At(sessions, Top.n)].appending = FALSE]
  ELSE sessions
Agents ==
  IF AnnouncesAgent /\ Holds(agents, Top.n) THEN Marked(agents, Top.n, "announced")
  ELSE agents

Settles == sessions' = Sessions /\ agents' = Agents

-----------------------------------------------------------------------------
(* Phase A: refusals before anything exists.                               *)

(* C-TXN-A0, C-FAC-6: the factory slot is cleared when the provider is     *)
(* gone; until then a create is told that the loop is not active.          *)
NoFactory(verb) == verb # "create_now" /\ Fiber(Provider) = "gone"

(* F1 to F9, in order.  Nothing is reserved (C-DUP-1), nothing is left.    *)
Refusal(verb, id, owner, flaw) ==
  CASE NoFactory(verb)                          -> "no-factory"
    [] Occupied(sessions, id)                   -> "session-exists"   \* F2
    [] flaw = "seed"                            -> "seed"             \* F3, F4
    [] flaw = "options"                         -> "options"          \* F5
    [] OwnerState(owner) = "gone"               -> "inactive-owner"   \* F6
    [] Fiber(Provider) # "active"               -> "provider"         \* F7
    [] flaw = "aborted"                         -> "caller"           \* F8
    [] OwnerState(owner) # "active"             -> "inactive-owner"   \* F9
    [] OTHER                                    -> ""

(* C-RES-2, C-ABT-2, C-RES-3: no backend, or a signal that keeps it        *)
(* untouched; then the owners, for the load has an effect at the owner;    *)
(* the load itself finds that the id is live (C-RES-6).                    *)
ResumeRefusal(id, owner, flaw) ==
  CASE NoFactory("resume")           -> "no-factory"
    [] flaw = "no-persistence"       -> "no-persistence"
    [] flaw = "aborted"              -> "caller"
    [] OwnerState(owner) = "gone"    -> "inactive-owner"
    [] Fiber(Provider) # "active"    -> "provider"
    [] OwnerState(owner) # "active"  -> "inactive-owner"
    [] Occupied(sessions, id)        -> "live"
    [] OTHER                         -> ""

Transaction(n, verb, id, owner) ==
  [number |-> n, id |-> id, owner |-> owner, verb |-> verb, reason |-> "", begun |-> FALSE,
   cancelled |-> FALSE, scope |-> "none", driver |-> "absent", awaits |-> <<>>,
   public |-> "pending", gone |-> FALSE]

(* The call: refused, or the transaction begins to exist with its teardown *)
(* registered at both owners (C-TXN-A7).                                   *)
Begin ==
  /\ Runs /\ Top.at = "begin"
  /\ Steps
  /\ LET n == Top.n
         verb == Top.x[1]  id == Top.x[2]  owner == Top.x[3]  flaw == Top.x[4]
         refusal == IF verb = "resume" THEN ResumeRefusal(id, owner, flaw)
                                       ELSE Refusal(verb, id, owner, flaw)
     IN IF refusal # ""
        THEN Leaves(<<"reject", n, refusal>>) /\ UNCHANGED core
        ELSE /\ members' = members \cup {Transaction(n, verb, id, owner)}
             /\ UNCHANGED <<fibers, sessions, agents>>
             /\ IF verb = "resume"
                THEN Notes(<<"own", n, id>>, Frame("owned", n, <<IF flaw = "options" THEN flaw ELSE "">>))
                ELSE Notes(<<"prepare", n, id>>, Frame("prepared", n, <<>>))

-----------------------------------------------------------------------------
(* N-11, C-RBK-8: where `agent/created' is awaited, a late rejection       *)
(* vetoes like a failed dispatch.                                          *)
Vetoed == threw \/ Top.x = <<"throws">>

(* What makes a transaction fail where its routine stands now: an error,   *)
(* or "" when it goes on.                                                  *)

Liveness(n) == IF Intact("liveness barrier") THEN M(n).reason ELSE ""

(* C-RES-4: both owners are looked at again after the load; then A3.       *)
LoadError(n, flaw, answer) ==
  CASE M(n).reason # ""                -> M(n).reason
    [] answer = "missing"              -> "not-found"            \* C-RES-5
    [] Occupied(sessions, M(n).id)     -> "live"                 \* C-RES-6
    [] flaw = "options"                -> "options"
    [] OTHER                           -> ""

Error ==
  LET n == Top.n IN
  CASE Top.at = "loaded"            -> LoadError(n, Top.x[1], Top.x[2])
    [] Top.at = "minted"            -> IF threw THEN "mint" ELSE ""                  \* F11
    [] Top.at = "built"             -> Liveness(n)                                   \* F12
    [] Top.at = "set up"            ->
         CASE Top.x[1] = "throws"      -> "setup"                                    \* F13
           [] Top.x[1] = "deactivated" -> M(n).reason                                \* F14
           [] OTHER                    -> ""
    [] Top.at = "committed"         -> IF threw THEN "commit" ELSE Liveness(n)       \* F15, F16
    [] Top.at = "session announced" -> IF threw /\ Intact("veto") THEN "created" ELSE Liveness(n)  \* F19, F20
    [] Top.at = "agent announced"   -> IF Vetoed /\ Intact("veto") THEN "created" ELSE Liveness(n) \* F21, F22
    [] Top.at = "noticed"           ->                                               \* F23, F24, F25
         IF threw /\ ~StartNoticeIsContained THEN "created" ELSE Liveness(n)
    [] OTHER                        -> ""

(* F17, F18: entering arbitrates, session first.                           *)
EntryError ==
  CASE ~Intact("arbitration") -> ""
    [] Top.at \in {"committed", "built"} /\ Occupied(Sessions, M(Top.n).id) -> "session-exists"
    [] Top.at = "session entered" /\ Occupied(Agents, M(Top.n).id)          -> "agent-exists"
    [] OTHER -> ""

Publishing == \/ Top.at = "built" /\ M(Top.n).verb = "create_now"
              \/ Top.at \in {"committed", "session entered"}

Failure == IF Error # "" THEN Error ELSE IF Publishing THEN EntryError ELSE ""

(* It is on its way back.                                                  *)
Fails == Runs /\ Failure # ""
GoesOn(at) == Runs /\ Top.at = at /\ Failure = ""

-----------------------------------------------------------------------------
(* Phase L: the load of a resume.                                          *)

ParkLoad ==
  /\ GoesOn("owned")
  /\ Steps /\ UNCHANGED core
  /\ Parks(<<"load", Top.n>>, Top.x)

PrepareLoaded ==
  /\ GoesOn("loaded")
  /\ Steps /\ UNCHANGED core
  /\ Notes(<<"prepare", Top.n, M(Top.n).id>>, Frame("prepared", Top.n, <<>>))

-----------------------------------------------------------------------------
(* Phases A8 to B2: the scope, the agent, its setup.                       *)

(* C-TXN-A8: the scope is minted; whoever watches fibers hears of it.      *)
Mint ==
  /\ GoesOn("prepared")
  /\ Steps /\ UNCHANGED <<fibers, sessions, agents>>
  /\ members' = With([M(Top.n) EXCEPT !.scope = "open"])
  /\ Notifies(<<"mint", Top.n>>, Frame("minted", Top.n, <<>>))

(* C-TDN-3: a teardown asked for meanwhile waits for the agent to be built.*)
Build ==
  /\ GoesOn("minted")
  /\ Steps /\ UNCHANGED <<fibers, sessions, agents>>
  /\ members' = With([M(Top.n) EXCEPT
       !.driver = IF DriverWaitsForPublication THEN "shut" ELSE "idle"])
  /\ Notes(<<"build", Top.n>>, Frame("built", Top.n, <<>>))

(* C-TXN-A9: setup starts inside the call.                                 *)
CallSetup ==
  /\ GoesOn("built") /\ M(Top.n).verb # "create_now"
  /\ Steps /\ UNCHANGED core
  /\ Notifies(<<"setup", Top.n>>, Frame("setup called", Top.n, <<>>))

ParkSetup ==
  /\ GoesOn("setup called")
  /\ Steps /\ UNCHANGED core
  /\ Parks(<<"setup", Top.n>>, <<>>)

(* C-TXN-B2, N-5: no liveness check between the race and commit.           *)
Commit ==
  /\ GoesOn("set up")
  /\ Steps /\ UNCHANGED core
  /\ Notifies(<<"commit", Top.n>>, Frame("committed", Top.n, <<>>))

-----------------------------------------------------------------------------
(* Phase C: publication (C1 to C10).                                       *)

(* C-TXN-C2                                                                *)
EnterSession ==
  /\ GoesOn("committed") \/ (GoesOn("built") /\ M(Top.n).verb = "create_now")
  /\ Steps /\ UNCHANGED <<fibers, members, agents>>
  /\ LET m == M(Top.n) IN
     /\ sessions' = Append(Sessions, Entry(m.number, m.id, 0))
     /\ Notes(<<"enter", "session", m.number, m.id>>, Frame("session entered", m.number, <<>>))

(* C-TXN-C3                                                                *)
EnterAgent ==
  /\ GoesOn("session entered")
  /\ Steps /\ UNCHANGED <<fibers, members, sessions>>
  /\ LET m == M(Top.n) IN
     /\ agents' = Append(Agents, Entry(m.number, m.id, OwnerAgent(m.owner)))
     /\ Notes(<<"enter", "agent", m.number, m.id>>, Frame("entered", m.number, <<>>))

(* C-TXN-C4, C-REGS-4: marked before the first listener runs.              *)
AnnounceSession ==
  /\ GoesOn("entered")
  /\ Steps /\ UNCHANGED <<fibers, members, agents>>
  /\ sessions' = Marked(Sessions, Top.n, "announcing")
  /\ Notifies(<<"session/created", Top.n>>, Frame("session announced", Top.n, <<>>))

(* C-REGA-5; C-EVT-2: the later version awaits the listeners.              *)
AnnouncesTo(at) ==
  IF CreatedIsAwaited THEN Parks(<<"agent/created", Top.n>>, <<at>>)
  ELSE Notifies(<<"agent/created", Top.n>>, Frame(at, Top.n, <<>>))

(* C-TXN-C5, C-TXN-C6                                                      *)
AnnounceAgent ==
  /\ GoesOn("session announced")
  /\ Steps /\ UNCHANGED <<fibers, members>>
  /\ sessions' = Sessions
  /\ agents' = Marked(Agents, Top.n, "announcing")
  /\ AnnouncesTo("agent announced")

(* C-TXN-C7, C-TXN-C8; where creations are awaited there is no notice.     *)
NoticeStart ==
  /\ GoesOn("agent announced") /\ ~CreatedIsAwaited
  /\ Steps /\ UNCHANGED <<fibers, members>>
  /\ Settles
  /\ Notifies(<<"agent/session-start", Top.n>>, Frame("noticed", Top.n, <<>>))

(* C-TXN-C9, C-TXN-C10                                                     *)
Resolve ==
  /\ GoesOn("noticed") \/ (GoesOn("agent announced") /\ CreatedIsAwaited)
  /\ Steps /\ Settles /\ UNCHANGED fibers
  /\ members' = With([M(Top.n) EXCEPT !.public = "resolved"])
  /\ Notes(<<"resolve", Top.n>>, Frame("resolved", Top.n, <<>>))

(* N-1: only then may the driver run, with the wake that was kept.         *)
StartDriver ==
  /\ GoesOn("resolved") /\ DriverWaitsForPublication
  /\ Steps /\ UNCHANGED <<fibers, sessions, agents>>
  /\ LET m == M(Top.n) IN
     /\ members' = With([m EXCEPT !.driver = "idle"])
     /\ Notes(<<"start", Top.n>>,
              Frame(IF m.driver # "latched" THEN "started"
                    ELSE IF Fiber(Service) = "active" THEN "replay"
                    ELSE IF ClosingWakeIsRefusedWhole THEN "started" ELSE "hang", Top.n, <<>>))

ReplayWake ==
  /\ GoesOn("replay")
  /\ Steps /\ UNCHANGED <<fibers, sessions, agents>>
  /\ members' = With([M(Top.n) EXCEPT !.driver = "busy"])
  /\ Notifies(<<"running", Top.n>>, Frame("started", Top.n, <<>>))

(* C-REE-6, N-8: the closing scope refuses the run, and the agent is busy  *)
(* for ever. Nobody waits for this wake: there is no one to tell.          *)
HangAtStart ==
  /\ GoesOn("hang")
  /\ Steps /\ UNCHANGED <<fibers, sessions, agents>>
  /\ members' = With([M(Top.n) EXCEPT !.driver = "hung"])
  /\ Notes(<<"hang", Top.n>>, Frame("started", Top.n, <<>>))

(* The handle is in the caller's hands.                                    *)
ParkLive ==
  /\ GoesOn("started") \/ (GoesOn("resolved") /\ ~DriverWaitsForPublication)
  /\ Steps /\ UNCHANGED core
  /\ Parks(<<"live", Top.n>>, <<>>)

-----------------------------------------------------------------------------
(* Rollback and teardown: one path (C-TDN-2 to C-TDN-10).                  *)

(* The error that the promise will get; C-SYN-3: a synchronous create      *)
(* throws first and is rolled back behind its caller's back.               *)
RejectNow ==
  /\ Fails /\ (M(Top.n).verb = "create_now" \/ ~Intact("rollback first"))
  /\ Steps /\ Settles /\ UNCHANGED fibers
  /\ members' = With([M(Top.n) EXCEPT !.public = "rejected"])
  /\ Notes(<<"reject", Top.n, Failure>>, Frame("teardown", Top.n, <<"">>))

AtTeardown == \/ Fails /\ M(Top.n).verb # "create_now" /\ Intact("rollback first")
              \/ Runs /\ Top.at = "teardown"
(* L-DSP-4: whose cancel the log has refused is in no registry any more.   *)
IsLoose == M(Top.n).driver = "loose"
TearsDown == AtTeardown /\ ~IsLoose
Cause == IF Top.at = "teardown" THEN Top.x[1] ELSE Failure

(* C-ABT-1, C-ABT-3: the first reason stays.                               *)
Deactivate ==
  /\ TearsDown /\ M(Top.n).reason = ""
  /\ Steps /\ Settles /\ UNCHANGED fibers
  /\ members' = With([M(Top.n) EXCEPT !.reason = "teardown", !.begun = TRUE])
  /\ Notes(<<"deactivate", Top.n, "teardown">>, Frame("teardown", Top.n, <<Cause>>))

(* A rollback asks for the teardown like any owner.                        *)
Begun(m) == [m EXCEPT !.begun = TRUE]
MustCancel(m) == IsBuilt(m) /\ ~m.cancelled
Cancelled(m) == [Begun(m) EXCEPT !.cancelled = TRUE, !.driver = IF @ = "latched" THEN "shut" ELSE @]

(* C-TDN-4: cancel with cause `disposed'; pending input goes, and with it  *)
(* the wake that was kept for it.                                          *)
Cancel ==
  /\ TearsDown /\ M(Top.n).reason # "" /\ MustCancel(M(Top.n))
  /\ Steps /\ Settles /\ UNCHANGED fibers
  /\ members' = With(Cancelled(M(Top.n)))
  /\ Notifies(<<"cancel", Top.n>>, Frame("teardown", Top.n, <<Cause>>))

(* C-TDN-5                                                                 *)
ParkDrain ==
  /\ TearsDown /\ M(Top.n).reason # "" /\ IsBuilt(M(Top.n)) /\ M(Top.n).cancelled
  /\ Steps /\ Settles /\ UNCHANGED fibers
  /\ members' = With(Begun(M(Top.n)))
  /\ Parks(<<"drain", Top.n>>, <<Cause>>)

(* N-2, C-OWN-9: an owner joins every teardown of its own; published loops *)
(* leave out those that somebody else has begun.                           *)
BegunAlready(set) == IF EveryOwnerJoins THEN {} ELSE {m.number : m \in {o \in set : o.begun /\ ~o.gone}}
OwnedBy(owner) == {m \in members : m.owner = owner}

(* C-TDN-7: the scope unwinds, with every child that it owns.              *)
Unwind ==
  /\ \/ Runs /\ Top.at = "drained" /\ M(Top.n).scope = "open"
     \/ TearsDown /\ M(Top.n).reason # "" /\ ~IsBuilt(M(Top.n)) /\ M(Top.n).scope = "open"
  /\ Steps /\ Settles /\ UNCHANGED fibers
  /\ LET m == M(Top.n)
         cause == IF Top.at = "drained" THEN Top.x[1] ELSE Cause IN
     /\ members' = With([Begun(m) EXCEPT !.scope = "unwinding",
                                  !.driver = IF IsBuilt(m) THEN "drained" ELSE @])
     /\ Notes(<<"unwind", m.number>>,
              Frame("ask", m.number, <<"owner", "scope", cause, BegunAlready(OwnedBy(<<"agent", m.number>>)), 0>>))

(* C-OWN-10: it has begun to unwind with the provider already.             *)
AwaitScope ==
  /\ Runs /\ Top.at = "drained" /\ M(Top.n).scope # "open"
  /\ Steps /\ UNCHANGED <<fibers, sessions, agents>>
  /\ members' = With([M(Top.n) EXCEPT !.driver = "drained"])
  /\ Parks(<<"scope", Top.n, <<>>>>, Top.x)

Mine(kind) ==
  IF ~Intact("exact object") THEN Occupied(IF kind = "agent" THEN Agents ELSE Sessions, M(Top.n).id) ELSE
  IF kind = "agent" THEN Holds(Agents, Top.n) ELSE Holds(Sessions, Top.n)
Holder(registry) ==
  IF Intact("exact object") THEN Top.n
  ELSE LET i == CHOOSE j \in DOMAIN registry : registry[j].id = M(Top.n).id IN registry[i].object
Unscoped(m) == [m EXCEPT !.scope = IF @ = "unwinding" THEN "gone" ELSE @]

(* C-TDN-8: the agent leaves first, and only the exact object (C-REGA-7).  *)
DetachAgent ==
  /\ Runs /\ Top.at = "unscoped" /\ Mine("agent")
  /\ Steps /\ UNCHANGED <<fibers, sessions>>
  /\ members' = With(Unscoped(M(Top.n)))
  /\ agents' = Removed(agents, Holder(agents))
  /\ Notes(<<"detach", "agent", Top.n>>,
           Frame(IF EntryOf(agents, Holder(agents)).phase # "entered" /\ Intact("pairing")
                 THEN "agent detached" ELSE "agentless", Top.n, Top.x))

(* C-REGA-9, C-RBK-5: paired with an announcement that began.              *)
AgentDisposed ==
  /\ Runs /\ Top.at = "agent detached"
  /\ Steps /\ UNCHANGED core
  /\ Notifies(<<"agent/disposed", Top.n>>, Frame("agentless", Top.n, Top.x))

(* N-4, C-TDN-14: the end of the teardown of published loops when the      *)
(* dispatch of `agent/disposed' has failed, or (L-DSP-4) when its cancel   *)
(* was refused: it fails, and leaves the session where it is.              *)
Fallen == \/ Runs /\ Top.at = "agentless" /\ threw /\ ~DetachesAreUnconditional
          \/ AtTeardown /\ IsLoose

Agentless ==
  Runs /\ ~Fallen /\ (Top.at = "agentless" \/ (Top.at = "unscoped" /\ (~Mine("agent") \/ ~Intact("agent leaves first"))))

(* C-TDN-9: now the id is free (C-ID-6).                                   *)
DetachSession ==
  /\ Agentless /\ Mine("session")
  /\ Steps /\ UNCHANGED <<fibers, agents>>
  /\ members' = With(Unscoped(M(Top.n)))
  /\ sessions' = Removed(sessions, Holder(sessions))
  /\ Notes(<<"detach", "session", Top.n>>,
           Frame(IF EntryOf(sessions, Holder(sessions)).phase # "entered" /\ Intact("pairing")
                 THEN "session detached" ELSE "bare", Top.n, Top.x))

SessionDisposed ==
  /\ Runs /\ Top.at = "session detached"
  /\ Steps /\ UNCHANGED core
  /\ Notifies(<<"session/disposed", Top.n>>, Frame("bare", Top.n, Top.x))

Bare == \/ Runs /\ Top.at = "bare"
        \/ Agentless /\ ~Mine("session")
        \/ TearsDown /\ M(Top.n).reason # "" /\ M(Top.n).scope = "none"

(* C-RBK-3: a rollback is complete before the rejection is delivered.      *)
RollbackDone ==
  /\ Bare /\ M(Top.n).public = "pending"
  /\ Steps /\ UNCHANGED <<fibers, sessions, agents>>
  /\ LET cause == IF Fails THEN Failure ELSE Top.x[1] IN
     /\ members' = With([Begun(Unscoped(M(Top.n))) EXCEPT !.gone = TRUE])
     /\ Notes(<<"gone", Top.n, "fulfilled">>, Frame("rolled back", Top.n, <<cause>>))

(* C-RBK-6: the failure of a rollback replaces the original one.           *)
RollbackFell ==
  /\ Fallen /\ M(Top.n).public = "pending"
  /\ Steps /\ Settles /\ UNCHANGED fibers
  /\ members' = With([M(Top.n) EXCEPT !.gone = TRUE])
  /\ Notes(<<"gone", Top.n, "rejected">>, Frame("rolled back", Top.n, <<"disposal">>))

ParkRollback ==
  /\ Runs /\ Top.at = "rolled back"
  /\ Steps /\ UNCHANGED core
  /\ Parks(<<"rollback", Top.n>>, Top.x)

Reject ==
  /\ Runs /\ Top.at = "rejecting"
  /\ Steps /\ UNCHANGED <<fibers, sessions, agents>>
  /\ members' = Without(Top.n)
  /\ Leaves(<<"reject", Top.n, Top.x[1]>>)

(* C-TDN-10: the transaction is forgotten.                                 *)
Gone ==
  /\ Bare /\ M(Top.n).public # "pending"
  /\ Steps /\ UNCHANGED <<fibers, sessions, agents>>
  /\ members' = Without(Top.n)
  /\ Leaves(<<"gone", Top.n, "fulfilled">>)

GoneBadly ==
  /\ Fallen /\ M(Top.n).public # "pending"
  /\ Steps /\ UNCHANGED <<fibers, sessions, agents>>
  /\ members' = Without(Top.n)
  /\ Leaves(<<"gone", Top.n, "rejected">>)

-----------------------------------------------------------------------------
(* Asking for a teardown: handles, owner effects, unloading fibers,        *)
(* unwinding scopes.  A frame <<"ask", n, <<reason, then, what, spared,    *)
(* asked>>>> asks the transactions that are due, one after the other,      *)
(* newest first, and waits for all of them but the spared; it remembers    *)
(* the one that it asked last, and in a sixth part that the log may refuse *)
(* its cancel.                                                             *)

(* L-DSP-4, L-LOG-3: a record of its session is being published, so that   *)
(* the log may refuse what the cancel writes.                              *)
MayBeRefused(n) ==
  ~DisposalOutlivesRefusal /\ Holds(sessions, n) /\ EntryOf(sessions, n).appending
Behind(n) == [Top EXCEPT !.at = "ask", !.x = <<@[1], @[2], @[3], @[4], n>>, !.live = FALSE]
LeavesNow(n) == Holds(agents, n) /\ EntryOf(agents, n).phase # "announcing"
Refused == Runs /\ Top.at = "ask" /\ Len(Top.x) = 6 /\ threw

(* LR-228: nothing was cancelled; agent and session leave at once, or as   *)
(* soon as nobody talks about them, and the driver goes on all the same.   *)
CastsOff == Runs /\ (Top.at = "told of" \/ (Refused /\ ~LeavesNow(Top.x[5])))
Leaving(registry, n) ==
  IF Holds(registry, n) THEN [registry EXCEPT ![At(registry, n)].leaving = TRUE] ELSE registry
Casts ==
  /\ UNCHANGED fibers
  /\ sessions' = IF CastsOff THEN Leaving(sessions, Top.x[5]) ELSE sessions
  /\ agents' = IF CastsOff THEN Leaving(agents, Top.x[5]) ELSE agents
Loose(m) == IF CastsOff /\ m.number = Top.x[5] THEN [m EXCEPT !.driver = "loose"] ELSE m

(* C-OWN-6, C-OWN-7, C-OWN-3                                               *)
Belongs(m) ==
  CASE Top.x[2] = "scope"  -> m.owner = <<"agent", Top.n>>
    [] Top.x[2] = "unload" -> IF Top.n = Provider THEN TRUE ELSE m.owner = <<"fiber", Top.n>>
    [] OTHER               -> m.number = Top.n

RECURSIVE Descending(_)
Descending(set) ==
  IF set = {} THEN <<>>
  ELSE LET newest == CHOOSE n \in set : \A o \in set : o <= n
       IN <<newest>> \o Descending(set \ {newest})

(* C-OWN-7: the provider also waits for every promise that it handed out.  *)
IsAwaited(m) == ~m.gone \/ (Top.n = Provider /\ Top.x[2] = "unload")
Joined == {m.number : m \in {o \in members : Belongs(o) /\ IsAwaited(o)}}

(* Not asked yet, or asked without having been cancelled.                  *)
Due(m) == m.reason = "" \/ MustCancel(m)
DueNumbers == {n \in Joined : Due(M(n))}
Waited == Descending(Joined \ Top.x[4])
Next1 == CHOOSE n \in DueNumbers : \A o \in DueNumbers : o <= n

(* A request about a transaction that is asked already only marks it.      *)
Asked(set) == {IF m.number \in set THEN [Loose(m) EXCEPT !.begun = TRUE] ELSE Loose(m) : m \in members}
Above(n) == {o \in Joined : o > n}
AskedWith(m) == {o \in Asked(Above(m.number)) : o.number # m.number} \cup {m}

Asks == Runs /\ ((Top.at = "ask" /\ ~Refused) \/ CastsOff)

AskDeactivate ==
  /\ Asks /\ DueNumbers # {} /\ M(Next1).reason = ""
  /\ Steps /\ Casts
  /\ members' = AskedWith([M(Next1) EXCEPT !.reason = Top.x[1], !.begun = TRUE])
  /\ Notes(<<"deactivate", Next1, Top.x[1]>>, Behind(Next1))

AskCancel ==
  /\ Asks /\ DueNumbers # {} /\ M(Next1).reason # ""
  /\ Steps /\ Casts
  /\ members' = AskedWith(Cancelled(M(Next1)))
  /\ Notifies(<<"cancel", Next1>>, IF MayBeRefused(Next1) THEN [Behind(Next1) EXCEPT !.x = Append(@, "or refused")] ELSE Behind(Next1))

AskRefused ==
  /\ Refused
  /\ LET n == Top.x[5] IN
     /\ LeavesNow(n)
     /\ Steps /\ UNCHANGED <<fibers, sessions>>
     /\ members' = With([M(n) EXCEPT !.driver = "loose"])
     /\ agents' = Removed(agents, n)
     /\ Notes(<<"detach", "agent", n>>,
              [Top EXCEPT !.at = IF EntryOf(agents, n).phase = "announced" THEN "cast off" ELSE "told of", !.live = FALSE])

AskDisposed ==
  /\ Runs /\ Top.at = "cast off"
  /\ Steps /\ UNCHANGED core
  /\ Notifies(<<"agent/disposed", Top.x[5]>>, [Top EXCEPT !.at = "told of"])

AllAsked == Asks /\ DueNumbers = {}

(* The caller of dispose gets the one memoised promise (C-TDN-1).          *)
AnswerPromise ==
  /\ AllAsked /\ Top.x[2] = "promise"
  /\ Steps /\ Casts
  /\ members' = Asked(Joined)
  /\ Leaves(Promise(Top.n))

ParkScope ==
  /\ AllAsked /\ Top.x[2] = "scope"
  /\ Steps /\ Casts
  /\ members' = Asked(Joined)
  /\ Parks(<<"scope", Top.n, Waited>>, <<Top.x[3]>>)

(* N-3, C-OWN-10: scopes are children of the provider's fiber, and unwind  *)
(* with it at once in published loops.                                     *)
Unwinding == AllAsked /\ Top.x[2] = "unload" /\ Top.n = Provider /\ ~ProviderKeepsOrder
OpenScopes == {m.number : m \in {o \in members : o.scope = "open"}}
UnwindAll ==
  /\ Unwinding /\ OpenScopes # {}
  /\ Steps /\ Casts
  /\ LET n == Descending(OpenScopes)[1] IN
     /\ members' = {IF m.number = n THEN [m EXCEPT !.scope = "unwinding"] ELSE m : m \in Asked(Joined)}
     /\ Notes(<<"unwind", n>>, Behind(n))

ParkUnload ==
  /\ AllAsked /\ Top.x[2] = "unload" /\ ~(Unwinding /\ OpenScopes # {})
  /\ Steps /\ Casts
  /\ members' = Asked(Joined)
  /\ Parks(<<"unload", Top.n, Waited>>, <<Top.x[3]>>)

-----------------------------------------------------------------------------
(* Fibers.                                                                 *)

(* C-ABT-4: an unload takes effect one microtask after its request.        *)
Closing ==
  /\ Runs /\ Top.at = "unload"
  /\ Steps /\ UNCHANGED <<members, sessions, agents>>
  /\ fibers' = WithFiber(Top.n, "unloading")
  /\ Notes(<<"closing", Top.n>>, Frame("closing", Top.n, <<>>))

ParkTick ==
  /\ Runs /\ Top.at = "closing"
  /\ Steps /\ UNCHANGED core
  /\ Parks(<<"tick", Top.n>>, <<>>)

(* C-OWN-11: the service unloads the provider first.                       *)
ClosingProvider ==
  /\ Runs /\ Top.at = "ticked" /\ Top.n = Service /\ Fiber(Provider) = "active"
  /\ Steps /\ UNCHANGED <<members, sessions, agents>>
  /\ fibers' = WithFiber(Provider, "unloading")
  /\ Notes(<<"closing", Provider>>, Frame("ask", Provider, <<"provider", "unload", "service", {}, 0>>))

ServiceProviderGone ==
  /\ Runs /\ Top.at = "unloaded" /\ Top.x[1] = "service"
  /\ Steps /\ UNCHANGED <<members, sessions, agents>>
  /\ fibers' = WithFiber(Provider, "gone")
  /\ Notes(<<"unloaded", Provider>>, Frame("providerless", Service, <<>>))

(* The provider is being unloaded by somebody else: that is waited for.    *)
ParkForProvider ==
  /\ Runs /\ Top.at = "ticked" /\ Top.n = Service /\ Fiber(Provider) # "active"
  /\ Steps /\ UNCHANGED core
  /\ Parks(<<"unload", Service, <<>>>>, <<>>)

(* C-INI-8: boundaries that are still open are drained.                    *)
ParkBoundaries ==
  /\ Runs /\ Top.at = "providerless"
  /\ Steps /\ UNCHANGED core
  /\ Parks(<<"boundaries">>, <<>>)

Unloaded ==
  /\ Runs
  /\ \/ Top.at = "unloaded" /\ Top.x[1] = "self"
     \/ Top.at = "no boundaries"
  /\ Steps /\ UNCHANGED <<members, sessions, agents>>
  /\ fibers' = WithFiber(Top.n, "gone")
  /\ Leaves(<<"unloaded", Top.n>>)

-----------------------------------------------------------------------------
(* Small operations.                                                       *)

(* C-ABT-1: a caller's abort deactivates at once, and does nothing else.   *)
AbortSignal ==
  /\ Runs /\ Top.at = "abort"
  /\ Steps /\ UNCHANGED <<fibers, sessions, agents>>
  /\ IF M(Top.n).public = "pending" /\ M(Top.n).reason = ""
     THEN /\ members' = With([M(Top.n) EXCEPT !.reason = "caller"])
          /\ Notes(<<"deactivate", Top.n, "caller">>, Frame("return", Top.n, <<>>))
     ELSE Leaves(Nothing) /\ UNCHANGED members

Return ==
  /\ Runs /\ Top.at = "return"
  /\ Steps /\ UNCHANGED core
  /\ Leaves(Nothing)

(* C-TDN-6: a disposal bars the wake from being kept.  N-1: an unpublished *)
(* agent keeps it.  C-INI-7, N-8: no run begins while the service closes.  *)
(* Else an idle agent runs, also behind a disposal (R-40).  C-TDN-17, N-7: *)
(* nothing comes of a wake behind the drain; published loops run a ghost.  *)
Wake ==
  /\ Runs /\ Top.at = "wake"
  /\ Steps /\ UNCHANGED <<fibers, sessions, agents>>
  /\ LET m == M(Top.n) IN
     CASE m.driver = "drained" ->
            /\ UNCHANGED members
            /\ IF DisposedAgentIsSilent THEN Leaves(<<"raise", "disposed">>)
               ELSE Notifies(<<"ghost", Top.n>>, Frame("return", Top.n, <<>>))
       [] m.driver = "shut" /\ m.cancelled -> Leaves(Nothing) /\ UNCHANGED members
       [] m.driver = "shut" /\ ~m.cancelled /\ Intact("driver gate") ->
            /\ members' = With([m EXCEPT !.driver = "latched"])
            /\ Notes(<<"latch", Top.n>>, Frame("return", Top.n, <<>>))
       [] m.driver # "shut" /\ Fiber(Service) # "active" ->
            IF ClosingWakeIsRefusedWhole
            THEN Leaves(<<"raise", "initiator-closed">>) /\ UNCHANGED members
            ELSE /\ members' = With([m EXCEPT !.driver = "hung"])
                 /\ Notes(<<"hang", Top.n>>, Frame("closed", Top.n, <<>>))
       [] OTHER ->
            /\ members' = With([m EXCEPT !.driver = "busy"])
            /\ Notifies(<<"running", Top.n>>, Frame("return", Top.n, <<>>))

RaiseClosed ==
  /\ Runs /\ Top.at = "closed"
  /\ Steps /\ UNCHANGED core
  /\ Leaves(<<"raise", "initiator-closed">>)

Rest ==
  /\ Runs /\ Top.at = "rest"
  /\ Steps /\ UNCHANGED <<fibers, sessions, agents>>
  /\ members' = With([M(Top.n) EXCEPT !.driver = "idle", !.awaits = <<>>])
  /\ Notifies(<<"idle", Top.n>>, Frame("return", Top.n, <<>>))

Escaped ==
  /\ Runs /\ Top.at = "escape"
  /\ threw' = TRUE /\ UNCHANGED <<left, core>>
  /\ Leaves(Nothing)

-----------------------------------------------------------------------------
(* Objects of others.                                                      *)

RegisterSession ==
  /\ Runs /\ Top.at = "register session"
  /\ Steps /\ UNCHANGED <<fibers, members, agents>>
  /\ LET id == Top.x[1] IN
     IF Occupied(sessions, id) THEN Leaves(<<"raise", "session-exists">>) /\ UNCHANGED sessions
     ELSE /\ sessions' = Append(sessions, Entry(Top.n, id, 0))
          /\ Notes(<<"enter", "session", Top.n, id>>, Frame("announce session", Top.n, <<>>))

RegisterAgent ==
  /\ Runs /\ Top.at = "register agent"
  /\ Steps /\ UNCHANGED <<fibers, members, sessions>>
  /\ LET id == Top.x[1] IN
     IF Occupied(agents, id) THEN Leaves(<<"raise", "agent-exists">>) /\ UNCHANGED agents
     ELSE /\ agents' = Append(agents, Entry(Top.n, id, 0))
          /\ Notes(<<"enter", "agent", Top.n, id>>, Frame("announce agent", Top.n, <<>>))

AnnounceOtherSession ==
  /\ Runs /\ Top.at = "announce session"
  /\ Steps /\ UNCHANGED <<fibers, members, agents>>
  /\ sessions' = Marked(sessions, Top.n, "announcing")
  /\ Notifies(<<"session/created", Top.n>>, Frame("session registered", Top.n, <<>>))

AnnounceOtherAgent ==
  /\ Runs /\ Top.at = "announce agent"
  /\ Steps /\ UNCHANGED <<fibers, members, sessions>>
  /\ agents' = Marked(agents, Top.n, "announcing")
  /\ AnnouncesTo("agent registered")

(* C-REGA-10: a veto rolls the entry back.  C-REGA-8, C-REGS-5: a detach   *)
(* asked for during a dispatch or an append happens when it has unwound.   *)
LeavingOf(registry) == EntryOf(registry, Top.n).leaving
Unwound(registry) ==
  Intact("deferral") =>
  LET entry == EntryOf(registry, Top.n) IN entry.phase # "announcing" /\ ~entry.appending

(* It remembers whether somebody else's detach had waited as well.         *)
VetoedOut(registry) == <<"raise", "vetoed">> \o (IF LeavingOf(registry) THEN <<"waited">> ELSE <<>>)

DetachOther ==
  /\ Runs
  /\ Steps /\ UNCHANGED <<fibers, members>>
  /\ \/ /\ \/ Top.at = "session registered" /\ (threw \/ LeavingOf(Sessions)) /\ Unwound(Sessions)
           \/ Top.at = "appended" /\ LeavingOf(Sessions) /\ Unwound(Sessions)
           \/ Top.at = "withdraw session" /\ Unwound(Sessions)
        /\ sessions' = Removed(Sessions, Top.n) /\ UNCHANGED agents
        /\ Notes(<<"detach", "session", Top.n>>,
                 Frame("tell session", Top.n,
                       IF Top.at = "session registered" /\ threw THEN VetoedOut(sessions) ELSE Nothing))
     \/ /\ \/ Top.at = "agent registered" /\ (Vetoed \/ LeavingOf(Agents))
           \/ Top.at = "withdraw agent" /\ Unwound(Agents)
        /\ agents' = Removed(Agents, Top.n) /\ UNCHANGED sessions
        /\ Notes(<<"detach", "agent", Top.n>>,
                 Frame("tell agent", Top.n,
                       IF Top.at = "agent registered" /\ Vetoed THEN VetoedOut(agents) ELSE Nothing))

TellDisposed ==
  /\ Runs
  /\ Steps /\ UNCHANGED core
  /\ \/ Top.at = "tell session" /\ Notifies(<<"session/disposed", Top.n>>, Frame("session told", Top.n, Top.x))
     \/ Top.at = "tell agent" /\ Notifies(<<"agent/disposed", Top.n>>, Frame("agent told", Top.n, Top.x))

(* C-TDN-13; N-4: published loops pass a failed `agent/disposed' on.       *)
Told ==
  /\ Runs /\ Top.at \in {"session told", "agent told"}
  /\ Steps /\ UNCHANGED core
  /\ Leaves(IF Top.at = "agent told" /\ threw /\ ~DetachesAreUnconditional /\ Top.x = Nothing
            THEN <<"raise", "escaped">> ELSE SubSeq(Top.x, 1, 2))

(* C-REGA-8: deferred.                                                     *)
Defer ==
  /\ Runs
  /\ Steps /\ UNCHANGED <<fibers, members>>
  /\ Leaves(Nothing)
  /\ \/ /\ Top.at = "withdraw session" /\ ~Unwound(sessions)
        /\ sessions' = [sessions EXCEPT ![At(sessions, Top.n)].leaving = TRUE] /\ UNCHANGED agents
     \/ /\ Top.at = "withdraw agent" /\ ~Unwound(agents)
        /\ agents' = [agents EXCEPT ![At(agents, Top.n)].leaving = TRUE] /\ UNCHANGED sessions

Registered ==
  /\ Runs
  /\ \/ Top.at = "session registered" /\ ~threw /\ ~LeavingOf(Sessions)
     \/ Top.at = "agent registered" /\ ~Vetoed /\ ~LeavingOf(Agents)
     \/ Top.at = "appended" /\ ~(LeavingOf(Sessions) /\ Unwound(Sessions))
  /\ Steps /\ Settles /\ UNCHANGED <<fibers, members>>
  /\ Leaves(Nothing)

(* C-REGA-4, C-REGS-4                                                      *)
AnnounceAgain ==
  /\ Runs /\ Top.at \in {"again session", "again agent"}
  /\ Steps /\ UNCHANGED core
  /\ Leaves(<<"raise", "already-announced">>)

(* C-REGS-9, C-REGS-10                                                     *)
AppendRecord ==
  /\ Runs /\ Top.at = "append"
  /\ Steps /\ UNCHANGED <<fibers, members, agents>>
  /\ IF EntryOf(sessions, Top.n).appending
     THEN Leaves(<<"raise", "append-reenters">>) /\ UNCHANGED sessions
     ELSE /\ sessions' = [sessions EXCEPT ![At(sessions, Top.n)].appending = TRUE]
          /\ Notifies(<<"session/event", Top.n>>, Frame("appended", Top.n, <<>>))

-----------------------------------------------------------------------------
Step ==
  \/ HangAtStart \/ RaiseClosed \/ AwaitScope \/ UnwindAll \/ RollbackFell \/ GoneBadly \/ AskRefused \/ AskDisposed
  \/ Begin \/ ParkLoad \/ PrepareLoaded
  \/ Mint \/ Build \/ CallSetup \/ ParkSetup \/ Commit
  \/ EnterSession \/ EnterAgent \/ AnnounceSession \/ AnnounceAgent \/ NoticeStart
  \/ Resolve \/ StartDriver \/ ReplayWake \/ ParkLive
  \/ RejectNow \/ Deactivate \/ Cancel \/ ParkDrain \/ Unwind
  \/ DetachAgent \/ AgentDisposed \/ DetachSession \/ SessionDisposed
  \/ RollbackDone \/ ParkRollback \/ Reject \/ Gone
  \/ AskDeactivate \/ AskCancel \/ AnswerPromise \/ ParkScope \/ ParkUnload
  \/ Closing \/ ParkTick \/ ClosingProvider \/ ServiceProviderGone \/ ParkForProvider \/ ParkBoundaries
  \/ Unloaded
  \/ AbortSignal \/ Return \/ Wake \/ Rest \/ Escaped
  \/ RegisterSession \/ RegisterAgent \/ AnnounceOtherSession \/ AnnounceOtherAgent
  \/ DetachOther \/ TellDisposed \/ Told \/ Defer \/ Registered \/ AnnounceAgain \/ AppendRecord

-----------------------------------------------------------------------------
(* The environment.  Everything that it does is paid for.                  *)

RECURSIVE CanPay(_, _)
CanPay(l, price) ==
  IF price = <<>> THEN TRUE
  ELSE l[Head(price)] > 0 /\ CanPay([l EXCEPT ![Head(price)] = @ - 1], Tail(price))
RECURSIVE Paid(_, _)
Paid(l, price) ==
  IF price = <<>> THEN l ELSE Paid([l EXCEPT ![Head(price)] = @ - 1], Tail(price))

Budgets ==
  [creates |-> Creates, ids |-> Ids, callers |-> Callers, aborts |-> Aborts,
   disposals |-> Disposals, unloads |-> Unloads, wakes |-> Wakes, waits |-> Waits,
   registrations |-> Registrations, detaches |-> Detaches, appends |-> Appends,
   escapes |-> Escapes, stale |-> Stale, inner |-> Inner]
SpentCreates == Creates - left.creates
SpentRegistrations == Registrations - left.registrations
SpentIds == Ids - left.ids
SpentCallers == Callers - left.callers

(* Whoever calls from a listener pays for that too.                        *)
Entrance == IF Runs THEN <<"inner">> ELSE <<>>
MayCall == IF Runs THEN Top.live /\ ~threw /\ Len(stack) <= Depth ELSE TRUE

Calls(operation, frame, price) ==
  /\ CanPay(left, price)
  /\ left' = Paid(left, price)
  /\ label' = <<"call">> \o operation
  /\ stack' = Append(stack, frame)
  /\ UNCHANGED <<core, threw, parked>>
Call(operation, frame, price) == MayCall /\ Calls(operation, frame, price \o Entrance)

NextObject == SpentCreates + SpentRegistrations + 1
KnownIds == 1 .. SpentIds + 1
IdPrice(id) == IF id > SpentIds THEN <<"ids">> ELSE <<>>

CallersFrom == 0 .. SpentCallers
CallOwners ==
  {<<"fiber", 2 + c>> : c \in {d \in CallersFrom : "caller" \in Owners /\ 2 + d < Len(fibers)}}
    \cup {<<"fiber", Provider>> : x \in {"provider"} \cap Owners}
    \cup {<<"agent", m.number>> : m \in {o \in members : "agent" \in Owners /\ IsBuilt(o)}}
OwnerPrice(owner) ==
  IF owner[1] = "fiber" /\ owner[2] = 2 + SpentCallers THEN <<"callers">> ELSE <<>>

CallCreate ==
  left.creates > 0 /\
  \E verb \in Verbs, id \in KnownIds, owner \in CallOwners, flaw \in Flaws :
    Call(<<verb, NextObject, id, owner, flaw>>,
         Frame("begin", NextObject, <<verb, id, owner, flaw>>),
         <<"creates">> \o IdPrice(id) \o OwnerPrice(owner))

CallAbort ==
  left.aborts > 0 /\
  \E m \in members :
    \/ /\ m.public = "pending" /\ m.reason = ""
       /\ Call(<<"abort", m.number>>, Frame("abort", m.number, <<>>), <<"aborts">>)
    \/ /\ m.public = "resolved"
       /\ Call(<<"abort", m.number>>, Frame("abort", m.number, <<>>), <<"aborts", "stale">>)

CallDispose ==
  left.disposals > 0 /\
  \E m \in members :
    /\ "dispose" \in Requests /\ m.public = "resolved" /\ ~m.gone
    /\ Call(<<"dispose", m.number>>, Frame("ask", m.number, <<"teardown", "promise", "", {}, 0>>),
            IF m.begun THEN <<"disposals", "stale">> ELSE <<"disposals">>)

CallRelease ==
  left.disposals > 0 /\
  \E m \in members :
    /\ "release" \in Requests /\ ~m.begun
    /\ Call(<<"release", m.number>>, Frame("ask", m.number, <<"owner", "promise", "", {}, 0>>), <<"disposals">>)

Unloadable ==
  {f \in FiberNumbers :
     CASE f = Service  -> "agents" \in Fibers
       [] f = Provider -> "provider" \in Fibers
       [] OTHER        -> "caller" \in Fibers /\ f - 2 < SpentCallers}
CallUnload ==
  left.unloads > 0 /\
  \E f \in Unloadable :
    /\ Fiber(f) = "active"
    /\ Call(<<"unload", f>>, Frame("unload", f, <<>>), <<"unloads">>)

CallWake ==
  left.wakes > 0 /\
  \E m \in members :
    /\ m.driver \in {"shut", "idle", "drained"}
    /\ Call(<<"wake", m.number>>, Frame("wake", m.number, <<>>),
            IF m.driver = "drained" THEN <<"wakes", "stale">> ELSE <<"wakes">>)

CallRegister ==
  left.registrations > 0 /\
  \E kind \in Kinds, id \in KnownIds :
    Call(<<"register", kind, NextObject, id>>,
         Frame(IF kind = "session" THEN "register session" ELSE "register agent", NextObject, <<id>>),
         <<"registrations">> \o IdPrice(id))

Registry(kind) == IF kind = "session" THEN sessions ELSE agents
CallOthers ==
  left.detaches > 0 /\
  \E kind \in Kinds : \E i \in DOMAIN Registry(kind) :
    LET n == Registry(kind)[i].object IN
    \/ Call(<<"announce_again", kind, n>>,
            Frame(IF kind = "session" THEN "again session" ELSE "again agent", n, <<>>), <<"detaches">>)
    \/ /\ ~Known(n)
       /\ Call(<<"withdraw", kind, n>>,
               Frame(IF kind = "session" THEN "withdraw session" ELSE "withdraw agent", n, <<>>), <<"detaches">>)

CallAppend ==
  left.appends > 0 /\
  \E i \in DOMAIN sessions :
    Call(<<"append", sessions[i].object>>, Frame("append", sessions[i].object, <<>>), <<"appends">>)

(* What a running activity waits for may be the end of somebody.           *)
IsOver(awaited) ==
  CASE awaited = <<>>         -> TRUE
    [] awaited[1] = "agent"   -> IsGone(awaited[2])
    [] OTHER                  -> Fiber(awaited[2]) = "gone"

CallRest ==
  \E m \in members :
    /\ ~Runs /\ m.driver = "busy" /\ IsOver(m.awaits)
    /\ Calls(<<"rest", m.number>>, Frame("rest", m.number, <<>>), <<>>)

(* The dispatch whose window is open, if its failure matters.              *)
OpenDispatch ==
  CASE Top.at = "minted"                                     -> "mint"
    [] Top.at = "committed"                                  -> "commit"
    [] Top.at \in {"session announced", "session registered"} -> "session/created"
    [] Top.at \in {"agent announced", "agent registered"}    -> "agent/created"
    [] Top.at = "noticed"                                    -> "agent/session-start"
    [] Top.at \in {"agentless", "agent told"}                -> "agent/disposed"
    [] Top.at \in {"bare", "session told"}                   -> "session/disposed"
    [] Top.at = "ask" /\ Len(Top.x) = 6                       -> "cancel"
    [] Top.at = "told of"                                    -> "agent/disposed"
    [] OTHER                                                 -> ""
Spoken == IF Top.at \in {"ask", "told of"} THEN Top.x[5] ELSE Top.n

CallEscape ==
  /\ Runs /\ Top.live /\ ~threw /\ OpenDispatch # ""
  /\ Events = {} \/ OpenDispatch \in Events
  /\ Calls(<<"escape", OpenDispatch, Spoken>>, Frame("escape", Spoken, <<>>), <<"escapes">>)

(* Await points.                                                           *)
Answered(p, answer, frame) ==
  /\ ~Runs
  /\ label' = <<"answer", p.point, answer>>
  /\ parked' = parked \ {p}
  /\ stack' = <<frame>>
  /\ UNCHANGED <<core, threw, left>>
Done == <<"done">>

AllGone(numbers) == \A i \in DOMAIN numbers : IsGone(numbers[i])
AllSettled(numbers) == \A i \in DOMAIN numbers : ~Known(numbers[i])

AnswerSetup(p, n) ==
  \/ /\ "settles" \in Setups /\ Answered(p, <<"settles">>, Frame("set up", n, <<"settles">>))
  \/ /\ "throws" \in Setups /\ Answered(p, <<"throws">>, Frame("set up", n, <<"throws">>))
  \/ /\ "deactivated" \in Setups /\ M(n).reason # ""
     /\ Answered(p, <<"deactivated">>, Frame("set up", n, <<"deactivated">>))

(* C-RES-7: a resume that has its preparation keeps others of that id      *)
(* waiting until it has published or is rolled back.                       *)
Reserved(id) ==
  Intact("reservation") /\
  \E m \in members : m.verb = "resume" /\ m.id = id /\ m.scope # "none" /\ m.public = "pending"

AnswerLoad(p, n) ==
  \/ ~Reserved(M(n).id) /\ Answered(p, <<"loaded">>, Frame("loaded", n, Append(p.x, "loaded")))
  \/ ~Reserved(M(n).id) /\ Answered(p, <<"missing">>, Frame("loaded", n, Append(p.x, "missing")))
  \/ M(n).reason # "" /\ Answered(p, <<"deactivated">>, Frame("loaded", n, Append(p.x, "deactivated")))

Answer ==
  \E p \in parked :
    LET what == p.point[1]
        n == IF what = "boundaries" THEN Service ELSE p.point[2] IN
    CASE what = "load"     -> AnswerLoad(p, n)
      [] what = "setup"    -> AnswerSetup(p, n)
      [] what = "live"     -> M(n).begun /\ Answered(p, <<"teardown">>, Frame("teardown", n, <<"">>))
      [] what = "drain"    -> (M(n).driver \notin {"busy", "hung"} \/ ~Intact("drain"))
                              /\ Answered(p, Done, Frame("drained", n, p.x))
      [] what = "scope"    -> (AllGone(p.point[3]) \/ ~Intact("children first")) /\ Answered(p, Done, Frame("unscoped", n, p.x))
      [] what = "rollback" -> Answered(p, Done, Frame("rejecting", n, p.x))
      [] what = "tick"     -> Answered(p, Done,
                                IF n = Service THEN Frame("ticked", n, <<>>)
                                ELSE IF n = Provider THEN Frame("ask", n, <<"provider", "unload", "self", {}, 0>>)
                                ELSE Frame("ask", n, <<"owner", "unload", "self", BegunAlready(OwnedBy(<<"fiber", n>>)), 0>>))
      [] what = "agent/created" -> \/ Answered(p, Done, Frame(p.x[1], n, <<>>))
                                   \/ Answered(p, <<"throws">>, Frame(p.x[1], n, <<"throws">>))
      [] what = "unload" /\ n = Service -> Fiber(Provider) = "gone" /\ Answered(p, Done, Frame("providerless", n, <<>>))
      [] what = "unload"   -> (IF n = Provider THEN AllSettled(p.point[3])
                               ELSE AllGone(p.point[3]) \/ ~Intact("owner joins"))
                              /\ Answered(p, Done, Frame("unloaded", n, p.x))
      [] what = "boundaries" -> (\A m \in members : m.driver \notin {"busy", "hung"})
                              /\ Answered(p, Done, Frame("no boundaries", n, <<>>))

Called ==
  \/ CallCreate \/ CallAbort \/ CallDispose \/ CallRelease \/ CallUnload \/ CallWake
  \/ CallRegister \/ CallOthers \/ CallAppend
Environment ==
  \/ MayCall /\ (Runs => left.inner > 0) /\ Called
  \/ Runs /\ CallEscape
  \/ ~Runs /\ (CallRest \/ Answer)

Init ==
  /\ fibers = [f \in 1 .. 2 + Callers |-> "active"]
  /\ members = {}
  /\ sessions = <<>> /\ agents = <<>>
  /\ threw = FALSE
  /\ left = Budgets
  /\ stack = <<>> /\ parked = {}
  /\ label = <<>>

Next == (Runs /\ Step) \/ Environment

Spec == Init /\ [][Next]_vars
=============================================================================
