#!/bin/bash
# `import httpx` looks for what its command line would need, and imports it all where it is installed: Click, Rich and Pygments come with many programs, so most pay for them.
# An `httpx` that is never run as a command then loads 95 or so more modules, and takes half as much processor time again.
# The guess: an import of the library loads the library, and `python -m httpx` the rest. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install httpx==0.28.1 rich==15.0.0 pygments==2.21.0 click==8.5.1
cat > look.py <<'P'
import sys
if sys.argv[1] == "without":
    sys.modules["httpx._main"] = None  # as if one of the three were not installed
import time
import httpx
print(len(sys.modules), round(1000 * time.process_time()), int("rich.syntax" in sys.modules), int("pygments.lexers" in sys.modules))
P
for way in with without; do
  v/bin/python look.py $way > /dev/null  # compiles
  v/bin/python look.py $way > $way
  read -r modules ms rich pygments < $way
  echo "$way its command line: $modules modules, $ms ms of the processor; rich.syntax loaded: $rich, pygments.lexers: $pygments"
done
echo "guess: the same twice, 0 and 0"
v/bin/python - <<'P'
import sys
(much, _, *loaded), (little, _, *none) = ([int(word) for word in open(name).read().split()] for name in ("with", "without"))
sys.exit(not (loaded == [1, 1] and none == [0, 0] and much > little + 50))
P
