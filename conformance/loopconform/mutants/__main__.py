"""`python -m loopconform.mutants serve`."""
import sys
from loopconform.mutants.serve import serve
if sys.argv[1:2] == ["serve"]:
    serve()
