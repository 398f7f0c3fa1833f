"""The generated cases: every operation at every place of a few short stories.

`scenarios` tells the stories, `places` finds out where something can happen in them by playing them, `programs`
writes a program for each operation (and each pair of operations) at each place, and `__main__` plays them all, keeps
those in which the operation really happened, and notes which clauses spoke. `python -m loopconform.grid` writes the
case files and the table of clauses without a case.
"""
