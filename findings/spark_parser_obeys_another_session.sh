#!/bin/bash
# Who judges a query before Spark runs it asks the parser of a session: session.sessionState().sqlParser(). In Spark 4.3.0 that parser reads the settings of the session that is active in the
# calling thread, and Spark's defaults where none is. In the thread that built the session nothing is seen of that. In a worker thread `${env:HOME}` in a text is replaced by the
# variable of the environment although spark.sql.variable.substitute is off, and an ASOF JOIN is refused with the advice to set the setting that is set.
# session.sql(text) makes its session active, and is right. Versions: pyspark 4.3.0 on Java 17 or later.
# The guess: a parser that belongs to the state of a session parses by the settings of that session. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install pyspark==4.3.0
HOME=/somewhere v/bin/python - <<'P' 2>/dev/null
import sys, threading
from pyspark.sql import SparkSession
session = (SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.variable.substitute", "false")
           .config("spark.sql.join.asofJoin.enabled", "true").getOrCreate())
join = "select 1 from a asof join b match_condition (a.t >= b.t) on a.k = b.k"
seen = {}
def look(name):
    parser = session._jsparkSession.sessionState().sqlParser()
    kept = "${env:HOME}" in parser.parsePlan("select '${env:HOME}' as a").toString()
    try:
        parser.parsePlan(join)
        seen[name] = kept, "taken"
    except Exception as refused:
        seen[name] = kept, "ASOF_JOIN" in str(refused) and "refused"
look("thread of the session")
other = threading.Thread(target=look, args=("other thread",))
other.start(); other.join()
for name, (kept, joined) in seen.items():
    print(f"pyspark {session.version}, {name}: the text stays: {kept}; the join is {joined}")
print("guess: True and taken, in any thread")
session.stop()
sys.exit(seen != {"thread of the session": (True, "taken"), "other thread": (False, "refused")})
P
