"""`python -m loopconform.mutants serve | search [FAULT…] | table`: the faulty adapter; the matrix; its page.

`search` takes long. It begins with the kills that are recorded, and looks anew for the rest; with names (which may end
in `*`) for these only. The exit code is 1 when a fault survives that `holes.yaml` does not explain.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Do what the first word says. Answers the exit code."""
    words = sys.argv[1:] or [""]
    if words[0] == "serve":
        from loopconform.mutants.serve import serve

        serve()
    elif words[0] == "search":
        return _search(words[1:])
    elif words[0] == "table":
        _table()
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


def _search(names: list[str]) -> int:
    from loopconform.mutants import search
    from loopconform.mutants.named import everything

    before = search.known()
    chosen = [fault for fault in everything() if not names or any(_fits(fault.id, name) for name in names)]

    def save(kills: object) -> None:
        search.written({**before, **dict(kills)})  # type: ignore[call-overload]

    found = search.search(chosen, before, lambda line: print(line, flush=True), save)
    save(found)
    _table()
    silent = search.unexplained(found)
    if silent:
        print(f"{search.HOLES.name} does not say why these survive:", *silent, sep="\n  ", file=sys.stderr)
    return 1 if silent else 0


def _fits(id: str, name: str) -> bool:
    return id.startswith(name[:-1]) if name.endswith("*") else id == name


def _table() -> None:
    from loopconform.mutants import matrix, table
    from loopconform.mutants.named import everything

    table.PAGE.write_text(table.page(everything(), matrix.load()), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
