------------------------------ MODULE MCInbox ------------------------------
(* Bounded instances of the inbox.                                         *)
EXTENDS InboxWorld

InboxBound(depth, messages, edits, takes, refusals) ==
  [depth |-> depth,
   budgets |-> "messages" :> messages @@ "edits" :> edits @@ "takes" :> takes @@ "refusals" :> refusals]

Quick == InboxBound(1, 3, 1, 1, 1)
Small == InboxBound(1, 2, 1, 1, 1)
Deep  == InboxBound(2, 4, 2, 2, 1)
=============================================================================
