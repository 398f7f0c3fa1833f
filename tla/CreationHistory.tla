--------------------------- MODULE CreationHistory ---------------------------
(***************************************************************************)
(* What must hold of creation (C- section 18), told from the labels of the *)
(* moves: no claim is judged by the field that it is about.                *)
(*                                                                         *)
(* past[n] are the marks of object n, that is of the transaction n, its    *)
(* session and its agent, or of somebody else's object of that number:     *)
(*   s+ a+ ss a- s-       the five dispatches, begun                       *)
(*   in/out session/agent entered into and detached from a registry        *)
(*   resume, now          the verb, where it is not create                 *)
(*   prepared, setup, settled, commit, resolved, rejected, gone            *)
(*   deactivated, and the first reason; vetoed: a creation dispatch failed *)
(*   running              a run is under way                               *)
(*   drained, unwound, unscoped                                            *)
(* named[n] is the id under which n was entered or called, 0 before.       *)
(***************************************************************************)
EXTENDS Creation

VARIABLES past, named

Objects == 1 .. Creates + Registrations
remembered == <<view, past, named>>
all == <<vars, past, named>>

Marks(n, marks) == past' = [past EXCEPT ![n] = @ \cup marks] /\ UNCHANGED named
Named(n, marks, id) == past' = [past EXCEPT ![n] = @ \cup marks] /\ named' = [named EXCEPT ![n] = id]
Forgets(n, marks) == past' = [past EXCEPT ![n] = @ \ marks] /\ UNCHANGED named
Same == UNCHANGED <<past, named>>

Announced ==
  [e \in {"session/created", "agent/created", "agent/session-start", "agent/disposed", "session/disposed"} |->
     CASE e = "session/created" -> "s+" [] e = "agent/created" -> "a+" [] e = "agent/session-start" -> "ss"
       [] e = "agent/disposed" -> "a-"  [] e = "session/disposed" -> "s-"]

Remembers ==
  LET l == label' IN
  CASE l[1] = "call" /\ l[2] = "resume"     -> Named(l[3], {"resume"}, l[4])
    [] l[1] = "call" /\ l[2] = "create_now" -> Named(l[3], {"now"}, l[4])
    [] l[1] = "call" /\ l[2] = "create"     -> Named(l[3], {}, l[4])
    [] l[1] = "call" /\ l[2] = "escape"     ->
         IF l[3] \in {"session/created", "agent/created", "mint", "commit"} THEN Marks(l[4], {"vetoed"}) ELSE Same
    [] l[1] = "answer" ->
         CASE l[2][1] = "setup" /\ l[3][1] = "settles" -> Marks(l[2][2], {"settled"})
           [] l[2][1] = "drain"                        -> Marks(l[2][2], {"drained"})
           [] l[2][1] = "scope"                        -> Marks(l[2][2], {"unscoped"})
           [] OTHER                                    -> Same
    [] l[1] = "notify" ->
         CASE l[2] \in DOMAIN Announced    -> Marks(l[3], {Announced[l[2]]})
           [] l[2] \in {"setup", "commit"} -> Marks(l[3], {l[2]})
           [] l[2] = "running"             -> Marks(l[3], {"running", "ran"})
           [] l[2] = "idle"                -> Forgets(l[3], {"running"})
           [] OTHER                        -> Same
    [] l[1] = "note" ->
         CASE l[2] = "prepare"    -> Marks(l[3], {"prepared"})
           [] l[2] = "enter"      -> Named(l[4], {IF l[3] = "session" THEN "in session" ELSE "in agent"}, l[5])
           [] l[2] = "detach"     -> Marks(l[4], {IF l[3] = "session" THEN "out session" ELSE "out agent"})
           [] l[2] = "deactivate" -> Marks(l[3], {"deactivated", l[4]})
           [] l[2] = "resolve"    -> Marks(l[3], {"resolved"})
           [] l[2] = "reject"     -> Marks(l[3], {"rejected"})
           [] l[2] = "unwind"     -> Marks(l[3], {"unwound"})
           [] l[2] = "gone"       -> Marks(l[3], {"gone"})
           [] OTHER               -> Same
    [] l[1] = "leave" ->
         CASE l[2] = "reject" -> Marks(l[3], {"rejected"})
           [] l[2] = "gone"   -> Marks(l[3], {"gone"})
           [] OTHER           -> Same
    [] OTHER -> Same

HistoryInit == Init /\ past = [n \in Objects |-> {}] /\ named = [n \in Objects |-> 0]
HistorySpec == HistoryInit /\ [][Next /\ Remembers]_all

-----------------------------------------------------------------------------
(* Small words about the move under way.                                   *)

Does2(verb, name) == label'[1] = verb /\ label'[2] = name
Tells(event, n) == Does2("notify", event) /\ label'[3] = n
Has(n, mark) == mark \in past[n]
Enters(kind, n) == Does2("note", "enter") /\ label'[3] = kind /\ label'[4] = n
Takes(kind, n) == Does2("note", "detach") /\ label'[3] = kind /\ label'[4] = n
Resolves(n) == Does2("note", "resolve") /\ label'[3] = n
Ends(n) == label'[1] \in {"note", "leave"} /\ label'[2] = "gone" /\ label'[3] = n
Rejects(n) == label'[1] \in {"note", "leave"} /\ label'[2] = "reject" /\ label'[3] = n
IsTransaction(n) == Has(n, "prepared")

-----------------------------------------------------------------------------
(* Safety.                                                                 *)

(* INV-1, INV-2: each announcement once, each disposal once and behind it. *)
Pairing == [][\A n \in Objects :
  /\ Tells("session/created", n)  => ~Has(n, "s+")
  /\ Tells("agent/created", n)    => ~Has(n, "a+")
  /\ Tells("session/disposed", n) => Has(n, "s+") /\ ~Has(n, "s-") /\ Has(n, "out session")
  /\ Tells("agent/disposed", n)   => Has(n, "a+") /\ ~Has(n, "a-") /\ Has(n, "out agent")]_all

(* INV-3, C-RBK-5: when a transaction has ended, its edges are paired.     *)
Closure == [][\A n \in Objects : Ends(n) =>
  /\ Has(n, "s+") <=> Has(n, "s-")
  /\ Has(n, "a+") <=> Has(n, "a-")]_all

(* INV-6: the five dispatches of a transaction come in order.              *)
Order == [][\A n \in Objects : IsTransaction(n) =>
  /\ Tells("session/created", n)     => Has(n, "in agent")
  /\ Tells("agent/created", n)       => Has(n, "s+")
  /\ Tells("agent/session-start", n) => Has(n, "a+") /\ ~Has(n, "a-")
  /\ Tells("session/disposed", n)    => (Has(n, "a+") => Has(n, "a-"))]_all

(* INV-14: drained, unscoped, agent out, session out.                      *)
TeardownOrder == [][\A n \in Objects : IsTransaction(n) =>
  /\ Does2("note", "unwind") /\ label'[3] = n => (Has(n, "in agent") => Has(n, "drained"))
  /\ Takes("agent", n)   => Has(n, "unscoped")
  /\ Takes("session", n) => Has(n, "unscoped") /\ (Has(n, "in agent") => Has(n, "out agent"))]_all

(* INV-4: a registry holds what was entered and not detached, one per id.  *)
Live(kind) ==
  {n \in Objects : (IF kind = "session" THEN "in session" ELSE "in agent") \in past[n]
                 /\ (IF kind = "session" THEN "out session" ELSE "out agent") \notin past[n]}
Content(registry) == {registry[i].object : i \in DOMAIN registry}
RegistryContent ==
  /\ Content(sessions) = Live("session") /\ Len(sessions) = Cardinality(Live("session"))
  /\ Content(agents) = Live("agent") /\ Len(agents) = Cardinality(Live("agent"))
OnePerId ==
  \A kind \in {"session", "agent"} : \A n, o \in Live(kind) : named[n] = named[o] => n = o

(* INV-5: a factory agent in its registry has its session in the other.    *)
AgentImpliesSession == \A n \in Live("agent") : IsTransaction(n) => n \in Live("session")

(* INV-7: nothing is entered before it is composed, or once deactivated.   *)
UnpublishedUntilComposed == [][\A n \in Objects : IsTransaction(n) /\ Enters("session", n) =>
  /\ Has(n, "now") \/ (Has(n, "settled") /\ Has(n, "commit"))
  /\ ~Has(n, "deactivated")]_all

(* INV-8: whose creation dispatch failed is never live.                    *)
Veto == [][\A n \in Objects : Has(n, "vetoed") =>
  ~Resolves(n) /\ ~Tells("agent/session-start", n)]_all

(* INV-9: deactivation stops the publication at the next dispatch.         *)
LivenessBarrier == [][\A n \in Objects : Has(n, "deactivated") /\ ~Has(n, "resolved") =>
  /\ ~Resolves(n)
  /\ ~Tells("session/created", n) /\ ~Tells("agent/created", n) /\ ~Tells("agent/session-start", n)]_all

(* INV-10: the first reason stays, and is the one that is told.            *)
FirstReason == [][\A n \in Objects :
  /\ Does2("note", "deactivate") /\ label'[3] = n => ~Has(n, "deactivated")
  /\ Rejects(n) /\ Has(n, "prepared") /\ label'[4] \in {"caller", "owner", "provider"} => Has(n, label'[4])]_all

(* INV-11, C-RBK-3: nothing of a rejected transaction is in a registry;    *)
(* only the synchronous create is told earlier (C-SYN-3).                  *)
RejectionAfterRollback == [][\A n \in Objects : Rejects(n) /\ ~Has(n, "now") =>
  /\ n \notin Live("session") /\ n \notin Live("agent")
  /\ Has(n, "unwound") => Has(n, "unscoped")]_all

(* C-DUP-1, F1 to F9: a call refused before anything was built leaves no   *)
(* trace.                                                                  *)
RefusedLeavesNoTrace == [][\A n \in Objects :
  Does2("leave", "reject") /\ label'[3] = n /\ past[n] \subseteq {"now", "resume"} => UNCHANGED core]_all

(* INV-12, C-REGA-7: a detach takes its own object out and nothing else.   *)
StaleDetach == [][
  /\ Content(sessions) # Content(sessions') =>
       \E n \in Objects : \/ Takes("session", n) /\ Content(sessions') = Content(sessions) \ {n}
                          \/ Enters("session", n) /\ Content(sessions') = Content(sessions) \cup {n}
  /\ Content(agents) # Content(agents') =>
       \E n \in Objects : \/ Takes("agent", n) /\ Content(agents') = Content(agents) \ {n}
                          \/ Enters("agent", n) /\ Content(agents') = Content(agents) \cup {n}]_all

(* INV-13: nobody leaves while a dispatch about it is under way below.     *)
Deferral == [][\A n \in Objects :
  /\ Takes("session", n) => ~\E i \in 1 .. Len(stack) - 1 :
       stack[i].n = n /\ stack[i].at \in {"session announced", "session registered", "appended"}
  /\ Takes("agent", n) => ~\E i \in 1 .. Len(stack) - 1 :
       stack[i].n = n /\ stack[i].at \in {"agent announced", "agent registered"}]_all

(* C-TDN-12, C-ID-6: an id comes free when its last holder has cleaned up. *)
ReuseAfterCleanup == [][\A n, o \in Objects :
  Enters("session", n) /\ o # n /\ named[o] = label'[5] /\ Has(o, "in session") =>
    Has(o, "out session") /\ (IsTransaction(o) => Has(o, "unscoped"))]_all

(* INV-15: a drained agent is not in a run, and begins none.               *)
Drained == [][\A n \in Objects :
  /\ label'[1] = "answer" /\ label'[2] = <<"drain", n>> => ~Has(n, "running")
  /\ Has(n, "drained") => ~Tells("running", n)]_all

(* INV-17: every step of a teardown once.                                  *)
SingleTeardown == [][\A n \in Objects :
  /\ Does2("note", "unwind") /\ label'[3] = n => ~Has(n, "unwound")
  /\ Takes("agent", n) => ~Has(n, "out agent")
  /\ Takes("session", n) => ~Has(n, "out session")]_all

(* INV-18: an abort behind the resolution changes nothing.                 *)
AbortEndsWithPromise == [][\A n \in Objects :
  Runs /\ Top.at = "abort" /\ Top.n = n /\ Has(n, "resolved") => UNCHANGED core]_all

(* INV-19, N-1: no run before session-start was told.                      *)
DriverGate == [][\A n \in Objects : Tells("running", n) => Has(n, "ss")]_all

(* INV-20, N-2: an owner is gone when what it owns is; the provider when   *)
(* also every promise has settled.                                         *)
Unloads2(f) == label'[1] \in {"leave", "note"} /\ label'[2] = "unloaded" /\ label'[3] = f
OwnerJoin == [][\A f \in FiberNumbers : Unloads2(f) =>
  IF f <= Provider THEN members = {}
  ELSE \A m \in members : m.owner = <<"fiber", f>> => m.gone]_all

(* INV-21: children are gone before the parent is told to be.              *)
ChildFirst == [][\A n \in Objects : Tells("agent/disposed", n) =>
  \A m \in members : m.owner = <<"agent", n>> => m.gone]_all

(* C-RES-7: of two resumes of one id, one has a preparation at a time.     *)
OneReservation == [][\A n \in Objects :
  Does2("note", "prepare") /\ label'[3] = n /\ Has(n, "resume") =>
    \A o \in Objects \ {n} : Has(o, "resume") /\ named[o] = named[n] /\ Has(o, "prepared") =>
      Has(o, "resolved") \/ Has(o, "rejected")]_all

-----------------------------------------------------------------------------
(* Reached: the negations, one for each witness.                           *)

(* R-01, F17: a loser is rejected although another holds the id.           *)
NeverArbitrates == [][~\E n, o \in Objects :
  Rejects(n) /\ Has(n, "commit") /\ label'[4] = "session-exists" /\ o \in Live("session") /\ Has(o, "resolved")]_all
(* F16: commit ran, and then the transaction was refused.                  *)
NeverCommitsInVain == [][~\E n \in Objects : Rejects(n) /\ Has(n, "commit") /\ ~Has(n, "in session") /\ Has(n, "caller")]_all
(* F22: deactivated inside agent/created: pairs, and no session-start.     *)
NeverUndone == [][~\E n \in Objects : Rejects(n) /\ Has(n, "a-") /\ ~Has(n, "ss") /\ Has(n, "caller") /\ ~Has(n, "vetoed")]_all
(* R-57: a wake came before the publication, and ran behind it.            *)
NeverReplays == [][~\E n \in Objects : Tells("running", n) /\ Top.at = "replay"]_all
(* R-04, R-55: the id of an ended agent is used again.                     *)
NeverReused == [][~\E n, o \in Objects : Resolves(n) /\ named[o] = named[n] /\ Has(o, "s-") /\ Has(o, "resolved")]_all
(* R-50, R-52: a detach that had to wait.                                  *)
NeverDeferred == [][~\E n \in Objects : Takes("session", n) /\ Top.at \in {"session registered", "appended"} /\ ~Has(n, "vetoed")]_all
(* R-60: a child and then its parent end.                                  *)
NeverOrphaned == [][~\E n \in Objects : Tells("agent/disposed", n) /\ \E o \in Objects \ {n} : o > n /\ Has(o, "a-") /\ Has(o, "owner")]_all
(* R-63: the second resume goes on when the first has failed.              *)
NeverSucceeds == [][~\E n, o \in Objects : Resolves(n) /\ Has(n, "resume") /\ Has(o, "resume") /\ Has(o, "rejected") /\ Has(o, "unscoped")]_all
=============================================================================
