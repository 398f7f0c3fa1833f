"""The durable log: record shapes in each format, and the rules a whole log obeys.

Shapes and storage

- `types`   plain tables: known, retired and surface types, scopes, formats. Safe for the live path.
- `v0`      format 0: pydantic models of header and payloads; `validate_header`, `validate_data`,
            `validate_event`, `parse_event`, `parse_row`.
- `v4`      format 4: the same names.
- `common`  shapes of both formats, `Problem` (rule, JSON path, reason) and `RowError`.
- `others`  payloads of the known types that the loop itself neither writes nor reads.
- `packed`  packed rows (format 0), embedded streams and source ranges (format 4), both ways.

What a log means

- `loopspec.stream`         chunks to blocks, and the grammar of a stream.
- `loopspec.surface`        which events make the history, and the messages derived from them.
- `loopspec.request`        header fold and the rebuilding of every request.
- `loopspec.context`        the runtime-context snapshot.
- `loopspec.system_prompt`  the system prompt as messages (format 4).
- `loopspec.accounting`     consumed work.
- `repair`                  what closes a log that a crash or a fork left open.
- `migrate`                 format 0 read as format 4, in memory.

An event is plain data, a mapping with the keys of its row; models judge it and are then thrown away.
"""
