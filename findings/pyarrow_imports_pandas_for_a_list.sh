#!/bin/bash
# A program that names pandas nowhere, and has it installed for another one, imports it all the same: pyarrow 26.0.1 asks for it with the first pa.array([1]), pa.array of
# NumPy values or pa.scalar(1), once in each process. That costs tens of megabytes and a third of a second, in a service, in each of its child processes, and in a
# command that shall answer at once. `import pyarrow`, pa.nulls(3) and pa.table({}) do not. Where pandas is not installed, or hidden by a finder in
# sys.meta_path that raises ModuleNotFoundError for it, pyarrow goes on as before.
# The guess: pandas is imported for pandas objects and by to_pandas(), so only where the program has it already or asks for it. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install pyarrow==26.0.1 pandas==3.1.1
cat > look.py <<'P'
import sys
import pyarrow as pa
def megabytes():
    return int(open("/proc/self/statm").read().split()[1]) * 4 // 1024
if sys.argv[1] == "hidden":
    class Without:
        @staticmethod
        def find_spec(name, *_):
            if name == "pandas":
                raise ModuleNotFoundError(name)
    sys.meta_path.insert(0, Without())
pa.nulls(3), pa.table({})
before = "pandas" in sys.modules, megabytes()
pa.array([1])
print(f"{sys.argv[1]}: pandas is imported: {before[0]}, after pa.array([1]): {'pandas' in sys.modules}, which took {megabytes() - before[1]} MB")
P
v/bin/python look.py plain | tee plain; v/bin/python look.py hidden | tee hidden
echo "guess: False, after pa.array([1]): False, in both"
grep -q "imported: False, after pa.array(\[1\]): True" plain && grep -q "after pa.array(\[1\]): False" hidden
