---------------------------- MODULE CreationFair ----------------------------
EXTENDS Creation

(* Liveness.  Fair: a segment goes on to its end; every await point that   *)
(* can be answered is, in the end; so is every run.  Nobody has to call.   *)
(* Setups and loads are such await points: LIV-1 to LIV-4 assume that they *)
(* settle.                                                                 *)

AnswerAt(what) == \E p \in parked : p.point[1] = what /\ (~Runs /\ Answer) /\ p \notin parked'
Points == {"load", "setup", "live", "drain", "scope", "rollback", "tick", "unload", "boundaries"}
Fair ==
  /\ Init /\ [][Next]_vars
  /\ WF_vars(Runs /\ Step)
  /\ WF_vars(~Runs /\ CallRest)
  /\ \A what \in Points : WF_vars(AnswerAt(what))

Pending(n) == Known(n) /\ M(n).public = "pending"
(* LIV-1                                                                   *)
EveryPromiseSettles == \A n \in 1 .. Creates : Pending(n) ~> ~Pending(n)
(* LIV-1: deactivation is enough, though the setup never settles.          *)
EveryDeactivatedSettles == \A n \in 1 .. Creates : (Pending(n) /\ M(n).reason # "") ~> ~Pending(n)
(* LIV-2                                                                   *)
EveryTeardownEnds == \A n \in 1 .. Creates : (Known(n) /\ M(n).begun) ~> ~Known(n)
(* LIV-4                                                                   *)
EveryUnloadEnds == \A f \in 1 .. 2 + Callers : (fibers[f] = "unloading") ~> (fibers[f] = "gone")
=============================================================================
