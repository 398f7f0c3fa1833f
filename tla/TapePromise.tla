----------------------------- MODULE TapePromise -----------------------------
(* Tape keeps promise 6 of AgentLoop: sealed bytes never change.  What a   *)
(* cell shows is told by its name, and by the calls that it makes or       *)
(* answers.                                                                *)
EXTENDS Tape

Shown == [i \in 1..Frozen |-> <<cells[i].uid, cells[i].calls, cells[i].answers>>]

Bytes == INSTANCE AgentLoop WITH
  tape <- Shown, compactions <- left.compactions,
  Message <- {}, status <- "idle", woken <- FALSE, due <- FALSE, resting <- FALSE, fate <- <<>>,
  openTurn <- 0, lastTurn <- 0, openStep <- 0, lastStep <- 0, prompts <- 0, cause <- "", said <- "",
  asking <- FALSE, owed <- {}, Object <- {}, life <- <<>>, over <- {}, request <- <<>>, told <- <<>>

SealedBytesNeverChange == Bytes!SealedBytesNeverChange
=============================================================================
