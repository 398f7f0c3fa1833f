----------------------------- MODULE MCLoopBatch -----------------------------
(* Bounded instances of the loop with its tool batches.                    *)
EXTENDS LoopBatch

(* Post-execute accepts, with or without the conclude mark; no contexts.   *)
Plain == << <<"accept", FALSE, FALSE>>, <<"accept", TRUE, FALSE>> >>
=============================================================================
