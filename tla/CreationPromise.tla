--------------------------- MODULE CreationPromise ---------------------------
(* Creation keeps promise 4 of AgentLoop: created and disposed pair, for   *)
(* the session and the agent of every transaction, and of anybody else.    *)
EXTENDS CreationHistory

Announceable == Objects \X {"session", "agent"}

LifeOf(o) ==
  LET marks == past[o[1]]
  IN CASE (IF o[2] = "session" THEN "s-" ELSE "a-") \in marks -> "disposed"
       [] (IF o[2] = "session" THEN "s+" ELSE "a+") \in marks -> "created"
       [] OTHER -> "unborn"

Lives == INSTANCE AgentLoop WITH
  Object <- Announceable, life <- [o \in Announceable |-> LifeOf(o)], over <- {o \in Announceable : "gone" \in past[o[1]]},
  Message <- {}, status <- "idle", woken <- FALSE, due <- FALSE, resting <- FALSE, fate <- <<>>,
  openTurn <- 0, lastTurn <- 0, openStep <- 0, lastStep <- 0, prompts <- 0, cause <- "", said <- "",
  asking <- FALSE, owed <- {}, request <- <<>>, told <- <<>>, tape <- <<>>, compactions <- 0

CreatedAndDisposedPair == Lives!CreatedAndDisposedPair
=============================================================================
