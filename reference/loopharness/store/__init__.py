"""Sessions on disk.

- `service`     `SessionPersistence`: mounted on a harness, it stores what sessions say, lists and opens them.
- `resume`      how a log becomes a live agent again, and how a session is forked.
- `checkpoint`  the policy that makes the log durable before steps, requests and tool bodies.
- `handle`      the write handle of one live session: queue, window, barrier.
- `opening`     a stored session taken over: lock, torn tail, crash repair, migration.
- `reading`     bytes to header and events; what is torn and what is damaged.
- `log_file`    one file open for writing: created whole, appended batch by batch, cut back on failure.
- `layout`      directories and names.
- `rows`        events to the text of rows and frames; `container` the way back, to physical rows.
- `files`       what is asked of a disk, and the real one; `memory` one in memory that can die.
- `errors`      a class for everything that can go wrong.

What a crash leaves at each moment is in `docs/CRASH.md`.
"""
