"""Queries that strangers try on DataFusion. `{file}` has a secret, `{folder}` is beside the data,
`input` is what they may read."""

from __future__ import annotations

STATEMENTS = (
    # Files and tables, by path, by function, by definition.
    "select * from '{file}'",
    'select * from "{file}"',
    "select * from `{file}`",
    "select * from 'file://{file}'",
    "select * from '/etc/passwd'",
    "select * from '/proc/self/environ'",
    "select * from './input.parquet'",
    "select * from 's3://bucket/key.parquet'",
    "select * from 'http://127.0.0.1:1/x.csv'",
    "select * from '{folder}'",
    "select * from '{folder}/*.parquet'",
    "select * from read_csv('{file}')",
    "select * from read_parquet('{file}')",
    "select * from read_json('{file}')",
    "select * from read_text('{file}')",
    "select * from csv_scan('{file}')",
    "select * from parquet_scan('{file}')",
    "select * from parquet_metadata('{file}')",
    "select * from table('{file}')",
    "select * from input join '{file}' f on true",
    "select (select max(column_1) from '{file}') as city from input",
    "select city from input where exists (select 1 from '{file}')",
    "with f as (select * from '{file}') select * from f",
    "select * from input union all select * from '{file}'",
    "select * from arrow_table('input')",
    "select * from pg_catalog.pg_class",
    "select * from information_schema.tables",
    "select * from information_schema.df_settings",
    "select * from information_schema.routines",
    "select * from datafusion.public.secrets",
    "select * from datafusion.information_schema.columns",
    "select * from secrets",
    "select * from os.environ",
    # What defines, changes, writes, asks the engine about itself.
    "create external table t stored as csv location '{file}'",
    "create table t as select * from input",
    "create or replace table input as select 1",
    "create view v as select * from input",
    "create schema s",
    "create database d",
    "create function f(int) returns int language sql return $1",
    "create function f(int) returns int return $1 + 1",
    "create temporary function f as 'os.system'",
    "drop table input",
    "drop view input",
    "drop function upper",
    "alter table input rename to x",
    "insert into input select * from input",
    "insert into '{folder}/stolen.parquet' select * from input",
    "update input set n = 1",
    "delete from input",
    "truncate table input",
    "copy input to '{folder}/stolen.parquet'",
    "copy (select * from input) to '{folder}/stolen.csv' stored as csv",
    "copy (select 1) to 's3://bucket/stolen.parquet'",
    "unload (select * from input) to '{folder}/stolen'",
    "load data infile '{file}' into table input",
    "load 'module'",
    "install httpfs",
    "attach '{file}' as x",
    "set datafusion.catalog.information_schema = true",
    "set datafusion.execution.target_partitions = 64",
    "set datafusion.runtime.memory_limit = '100G'",
    "reset datafusion.runtime.memory_limit",
    "show all",
    "show tables",
    "show functions",
    "show columns from input",
    "show create table input",
    "describe input",
    "use secrets",
    "pragma database_list",
    "explain select * from input",
    "explain analyze select * from input",
    "explain verbose select * from input",
    "(explain select 1)",
    "analyze table input",
    "prepare p as select 1",
    "execute p",
    "execute immediate 'select 1'",
    "deallocate p",
    "call system('id')",
    "do $$ begin end $$",
    "begin",
    "commit",
    "start transaction",
    "grant all on input to public",
    "lock table input",
    "vacuum",
    "merge into input using input on true when matched then delete",
    "select 1; select 2",
    "select 1; drop table input",
    "select 1; copy input to '{folder}/stolen.parquet'",
    "values (1)",
    "table input",
    "from input",
    "",
    ";",
    "-- nothing",
    "/* select */ drop table input",
    "select * into stolen from input",
    "with x as (insert into input select 1) select * from x",
    "with x as (copy input to '{folder}/stolen.parquet') select * from x",
    "select city from input tablesample bernoulli (10)",
    "select city from input prewhere n > 1",
    "select city from input distribute by n",
)
"""Refused as they stand."""

EXPRESSIONS = (
    "getenv('CANARY')",
    "env('CANARY')",
    "current_setting('x')",
    "pg_read_file('{file}')",
    "read_file('{file}')",
    "readfile('{file}')",
    "load_extension('x')",
    "system('id')",
    "shell('id')",
    "reflect('java.lang.System', 'getenv', 'CANARY')",
    "current_user",
    "session_user",
    "current_database()",
    "input_file_name()",
    "IDENTIFIER('getenv')('CANARY')",
    "@@version",
    "@canary",
    "$1",
    "$canary",
    "?",
    ":canary",
    "{{{{ env.CANARY }}}}.x",
    "with_metadata(city, 'k', 'v')",
    "python_udf(city)",
    "query_to_xml('select 1')",
    "dblink('host=127.0.0.1', 'select 1')",
    "http_get('http://127.0.0.1:1')",
    "sleep(100)",
    "pg_sleep(100)",
    "arrow_cast(city, 'Nonsense')",
    "arrow_cast(city, 'Dictionary(Int32, ')",
    "(select getenv('CANARY'))",
    "case when n > 0 then getenv('CANARY') end",
    "max(getenv('CANARY')) over (partition by city)",
    "upper(getenv(concat('CAN', 'ARY')))",
    "[getenv('CANARY')][1]",
    "cast(getenv('CANARY') as int)",
    "named_struct('k', getenv('CANARY'))['k']",
)
"""The same as the column of a query."""

HOSTILE = (*STATEMENTS, *(f"select event_time, {each} as x from input" for each in EXPRESSIONS))

_TEN = "(values (1),(2),(3),(4),(5),(6),(7),(8),(9),(10)) v{}(x)"
_MANY = ", ".join(_TEN.format(at) for at in range(14))
BOMBS = (
    # Time: one batch at the end, or none ever.
    f"select sum(v0.x * v1.x) as n, now() as event_time from {_MANY}",
    (
        "select sum(a.value * b.value) as n, now() as event_time "
        "from generate_series(1, 3000000) a, generate_series(1, 3000000) b"
    ),
    (
        "with recursive t as (select 1 as a union all select a + 1 from t) "
        "select a, now() as event_time from t"
    ),
    (
        "with recursive t as (select 1 as a union all select a from t) "
        "select count(*) as a, now() as event_time from t"
    ),
    "select count(*) as c, now() as event_time from range(0, 9223372036854775807) where value < 0",
    # Memory: of one value, of one array, of one group, of what is unpacked.
    "select length(repeat(city, 2000000000)) as x, event_time from input",
    "select length(repeat(repeat(city, 40000), 40000)) as x, event_time from input",
    "select lpad(city, 2000000000, 'x') as x, event_time from input",
    "select array_repeat(city, 2000000000) as x, event_time from input",
    "select array_length(array_repeat(n, 4000000000)) as x, event_time from input",
    "select cardinality(range(0, 4000000000)) as x, event_time from input",
    "select unnest(range(0, 9000000000)) as x, event_time from input",
    "select array_resize([n], 3000000000, 0) as x, event_time from input",
    "select replace(repeat(city, 100000), 'a', repeat('b', 100000)) as x, event_time from input",
    (
        "select string_agg(repeat(city, 100000), ',') as x, now() as event_time "
        "from input, generate_series(1, 100000)"
    ),
    "select array_agg(value) as x, now() as event_time from generate_series(1, 2000000000)",
    "select regexp_like(repeat(city, 200000), '(a{{1,900}}){{1,900}}$') as x from input",
    (
        "select regexp_replace(repeat(city, 50000), '', repeat('b', 50000), 'g') as x, event_time "
        "from input"
    ),
    "select levenshtein(repeat('a', 400000), repeat('b', 400000)) as x, event_time from input",
    "select factorial(n) + power(10, 4000) as x, event_time from input",
    # Plans: views that double with each step, long and deep ones.
    "with a0 as (select * from input), "
    + ", ".join(
        f"a{at} as (select * from a{at - 1} union all select * from a{at - 1})"
        for at in range(1, 28)
    )
    + " select * from a27",
    "select " + "+".join(["n"] * 20_000) + " as n, event_time from input",
    "select " + "(" * 3_000 + "n" + ")" * 3_000 + " as n, event_time from input",
    "select n, event_time from input where " + " or ".join(f"n = {at}" for at in range(20_000)),
    "select " + "case when n = 1 then 1 else " * 2_000 + "0" + " end" * 2_000 + " as n from input",
    "select " + "[" * 2_000 + "n" + "]" * 2_000 + " as n, event_time from input",
    "select n, event_time from input where n in (" + ",".join(["1"] * 200_000) + ")",
    "select '" + "x" * 300_000 + "' as x, event_time from input",
)
"""Queries that are possible, and would take everything. Each ends, as an answer."""
ODD = (
    "select event_time, '${{env.CANARY}} ${{{{ env.CANARY }}}}' as x from input",
    "select event_time, '{file}' as x from input",
    "select event_time, version() as x from input",
    "select event_time, arrow_typeof(city) as x from input",
    "select event_time, e'\\\\nSubquery:\\\\n  CopyTo: x' as x from input",
    'select event_time, city as "{file}" from input',
    "select event_time, (select '\nCopyTo: x') as x from input",
)
"""Queries that may run or not, and tell nothing."""
