---------------------------- MODULE RequestClaims ----------------------------
(***************************************************************************)
(* What a bystander may rely on of the requests (INV-L4, INV-L5, INV-R8,   *)
(* INV-R9, L-REQ-9 to L-REQ-12 and M-705).  He hears every label and       *)
(* remembers the last header, the last request and what led to it.         *)
(***************************************************************************)
EXTENDS Request

VARIABLE past

remembered == <<view, past>>
everything == <<vars, past>>

Blank == [
    headers  |-> 0,         \* headers of this loop
    header   |-> <<>>,      \* config, marks, system, tools of the last header
    told     |-> <<>>,      \* the last context
    derived  |-> 0,         \* the surface when the attempt began
    prepared |-> 0,         \* the registration that was looked up, 0: none
    sent     |-> <<>>,      \* the last request of this step: messages, generation
    repairs  |-> 0,         \* replacements by recovery since the last answer
    dead     |-> FALSE]

Hears(p, l) ==
    CASE l[1] = "open" ->
            [p EXCEPT !.dead = FALSE, !.sent = <<>>, !.headers = IF l[2] = "resumed" THEN 0 ELSE @,
                      !.repairs = IF l[2] = "resumed" THEN 0 ELSE @]
      [] l[1] = "abort" -> [p EXCEPT !.dead = TRUE]
      [] l[1] = "park" /\ l[2] = "request" -> [p EXCEPT !.derived = messages, !.prepared = 0]
      [] l[1] = "prepare" -> [p EXCEPT !.prepared = l[2]]
      [] l[1] = "append" /\ l[2] = "request/header" -> [p EXCEPT !.headers = @ + 1, !.header = SubSeq(l, 4, 7)]
      [] l[1] = "append" /\ l[2] = "request/context" -> [p EXCEPT !.told = SubSeq(l, 3, 5)]
      [] l[1] = "send" -> [p EXCEPT !.sent = <<l[4], generation>>]
      [] l[1] = "repair" -> [p EXCEPT !.repairs = @ + 1]
      [] OTHER -> p

HistoryInit == Init /\ past = Blank
\* An answer that ends well frees the next repair.
Remembers == IF frame' = <<"ended">> THEN [Hears(past, label') EXCEPT !.repairs = 0] ELSE Hears(past, label')
HistoryNext == Next /\ past' = Remembers
HistorySpec == HistoryInit /\ [][HistoryNext]_everything

Sends == label'[1] = "send"

\* INV-L4  A request is a function of the log: messages as of the beginning of the attempt, the rest as the last header.
RequestsAreRebuilt ==
    [][Sends => /\ label'[3] = past.header[1] /\ label'[5] = past.header[3] /\ label'[6] = past.header[4]
                /\ label'[4] = past.derived]_remembered

\* INV-L5, M-420  A prepared call is served by the registration that was looked up, whatever has happened since.
BoundToItsRegistration == [][(Sends /\ past.prepared # 0) => label'[2] = past.prepared]_remembered

\* L-REQ-9  The first request of a loop has a header; `initial` is written once.
FirstRequestHasHeader == [][Sends => past.headers > 0]_remembered
HeadersAreDue ==
    [][label'[1] = "append" /\ label'[2] = "request/header" =>
        past.headers = 0 \/ past.header # SubSeq(label', 4, 7)]_remembered
InitialOnce ==
    [][label'[1] = "append" /\ label'[2] = "request/header" => (label'[3] = "initial") = (past.header = <<>>)]_remembered

\* L-REQ-11
ContextsAreDue == [][label'[1] = "append" /\ label'[2] = "request/context" => past.told # SubSeq(label', 3, 5)]_remembered

\* INV-R9, L-REQ-1  Behind a cancel that the attempt could see nothing is proposed, prepared or written.
CancelIsSeen ==
    [][past.dead =>
        /\ ~(label'[1] = "park" /\ label'[2] \in {"request", "prepare", "recovery"})
        /\ ~(label'[1] = "append" /\ label'[2] \in {"request/header", "assistant/chunk"})]_remembered

\* M-705, INV-R11  At most one repair between two answers.
OneRepair == past.repairs <= 1

(* What must be reachable. *)
NeverUnserved == ~(point # <<>> /\ point[1] = "chunk" /\ point[3] = "alone")
NeverReplacedMeanwhile == ~(point # <<>> /\ point[1] = "chunk" /\ bound # 0 /\ bound # Serving(config[1]))
NeverRepaired == generation = 0
=============================================================================
