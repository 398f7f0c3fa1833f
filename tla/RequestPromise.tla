---------------------------- MODULE RequestPromise ----------------------------
(***************************************************************************)
(* Request keeps promise 5 of AgentLoop: a request equals its              *)
(* reconstruction.  The log is heard, not read: the last header, and how   *)
(* many records the surface had when the attempt began (M-449).            *)
(***************************************************************************)
EXTENDS Request

VARIABLES
  flight,     \* the request in flight, or <<>>: config, system, tools, messages
  header,     \* the last header: config, system, tools
  surface,    \* records on the surface
  began       \* as many there were when the attempt began

heard == <<flight, header, surface, began>>
watched == <<view, heard>>
watchedVars == <<vars, heard>>

Grows(l) ==
  \/ l[1] \in {"open", "touch"}
  \/ l[1] = "append" /\ l[2] = "assistant/message"
  \/ l[1] = "repair" /\ l[2]

Hear(l) ==
  /\ flight' = CASE l[1] = "send" -> <<l[3], l[5], l[6], l[4]>>
                 [] l[1] \in {"answer", "leave"} -> <<>>
                 [] OTHER -> flight
  /\ header' = IF l[1] = "append" /\ l[2] = "request/header" THEN <<l[4], l[6], l[7]>> ELSE header
  /\ surface' = IF Grows(l) THEN surface + 1 ELSE surface
  /\ began' = IF l[1] = "park" /\ l[2] = "request" THEN surface ELSE began

HeardInit == Init /\ flight = <<>> /\ header = <<>> /\ surface = 0 /\ began = 0
PromiseSpec == HeardInit /\ [][Next /\ Hear(label')]_watchedVars

(* A loop that sends the surface as it is now, and not as it was when the  *)
(* attempt began: what joined meanwhile is in the request without a trace  *)
(* in the order of the log.                                                *)
DerivesAgain ==
  /\ Waits("chunk") /\ point[3] = "unsent" /\ derived # messages
  /\ derived' = messages
  /\ label' = <<"derive">>
  /\ UNCHANGED <<aborted, step, headed, log, system, tools, routes, left, config, marks, window, bound, control>>
HastySpec == HeardInit /\ [][(DerivesAgain \/ Next) /\ Hear(label')]_watchedVars

-----------------------------------------------------------------------------
Requests == INSTANCE AgentLoop WITH
  request <- flight, told <- header \o <<began>>,
  Message <- {}, status <- "idle", woken <- FALSE, due <- FALSE, resting <- FALSE, fate <- <<>>,
  openTurn <- 0, lastTurn <- 0, openStep <- 0, lastStep <- 0, prompts <- 0, cause <- "", said <- "",
  asking <- FALSE, owed <- {}, Object <- {}, life <- <<>>, over <- {}, tape <- <<>>, compactions <- 0

RequestIsItsReconstruction == Requests!RequestIsItsReconstruction
=============================================================================
