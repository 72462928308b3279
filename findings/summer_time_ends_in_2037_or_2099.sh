#!/bin/bash
# Summer time ends for ever in 2037 for pyarrow and in 2099 for DataFusion (arrow-rs), without a word; Python's zoneinfo goes on.
# The guess: the rule of the zone goes on in all of them, so hours and texts of one moment agree. Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install datafusion==54.1.0 pyarrow==26.0.1 tzdata
v/bin/python - <<'P'
import datafusion, pyarrow, pyarrow.compute, sys
from datetime import UTC, datetime
from zoneinfo import ZoneInfo
zone, hours = "America/New_York", {}
for year in (2037, 2038, 2099, 2100):
    noon = datetime(year, 7, 1, 12, tzinfo=UTC)
    local = pyarrow.array([noon], pyarrow.timestamp("s", "UTC")).cast(pyarrow.timestamp("s", zone))
    moment = f"""arrow_cast('{year}-07-01T12:00:00', 'Timestamp(Second, Some("UTC"))')"""
    text = f"""arrow_cast(arrow_cast({moment}, 'Timestamp(Second, Some("{zone}"))'), 'Utf8')"""
    told = datafusion.SessionContext().sql(f"select {text} as t").to_pydict()["t"][0]
    hours[year] = (pyarrow.compute.hour(local)[0].as_py(), int(told[11:13]), noon.astimezone(ZoneInfo(zone)).hour)
    print(f"{year}-07-01T12:00Z in New York: hour {hours[year][0]} by pyarrow, {hours[year][1]} by datafusion, {hours[year][2]} by zoneinfo")
print("guess: 8, 8, 8 in every year")
sys.exit(hours != {2037: (8, 8, 8), 2038: (7, 8, 8), 2099: (7, 8, 8), 2100: (7, 7, 8)})
P
