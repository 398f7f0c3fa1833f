------------------------------- MODULE BatchLaw -------------------------------
(* What the law says of a batch that concerns the loop around it, too.     *)
CONSTANT FailedBatchIsCompleted  \* a failed batch still records every result (VD-40, S-LIF-7)
=============================================================================
