-------------------------------- MODULE Laws --------------------------------
(***************************************************************************)
(* The points on which the seed documents, published DSH and our choice    *)
(* differ, as far as the inbox and the driver are concerned.  The names    *)
(* are those of spec/loopspec/profile.py, where each question is written   *)
(* out; the answers here are taken from the columns of that table and from *)
(* agent-loop 20 to 22.                                                    *)
(***************************************************************************)
EXTENDS Integers

Published ==
  [closing_run_latches           |-> FALSE,  \* L-WAKE-10, L-WAKE-11
   observer_operations_wait      |-> FALSE,  \* L-LOG-3, L-SEND-9, L-CAN-6
   verdict_is_read_a_tick_late   |-> TRUE,   \* L-PRE-9
   any_disposal_bars_latch       |-> FALSE,  \* L-DSP-6
   disposal_drops_latch          |-> FALSE,  \* L-MNT-7, VD-20
   observers_see_splice_done     |-> FALSE,  \* L-IN-9, VD-14
   minus_zero_is_refused         |-> TRUE,   \* L-IN-5, RC-05
   admission_follows_preparation |-> FALSE,  \* VD-06
   streams_are_embedded          |-> FALSE,  \* VD-01
   session_format                |-> 0]

(* The seed's promises with the recommended choices, sessions of format 0. *)
Seed0 ==
  [Published EXCEPT
     !.closing_run_latches         = TRUE,
     !.observer_operations_wait    = TRUE,
     !.verdict_is_read_a_tick_late = FALSE,
     !.any_disposal_bars_latch     = TRUE,
     !.disposal_drops_latch        = TRUE,
     !.minus_zero_is_refused       = FALSE]

InFormat4(law) ==
  [law EXCEPT
     !.admission_follows_preparation = TRUE,
     !.streams_are_embedded          = TRUE,
     !.session_format                = 4]

Seed4 == InFormat4(Seed0)
Dsh01 == Published
Dsh017 ==
  [InFormat4(Published) EXCEPT
     !.disposal_drops_latch      = TRUE,
     !.observers_see_splice_done = TRUE]
=============================================================================
