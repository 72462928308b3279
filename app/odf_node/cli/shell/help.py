"""Additions to `--help`: examples for each command, and whole sentences in lists of commands."""

from __future__ import annotations

import click

LONGEST_SENTENCE = 200

EXAMPLES: dict[str, tuple[str, ...]] = {
    "serve": (
        "odf-node serve --port 8080 --data /srv/odf",
        (
            "odf-node serve --workers 0 --database-url postgresql://odf@db/odf \\\n"
            "      --objects-url s3://bucket/prefix"
        ),
    ),
    "login": (
        "odf-node login https://node.example",
        "odf-node login work --open     # a name that repo add gave",
    ),
    "logout": ("odf-node logout https://node.example",),
    "whoami": ("odf-node whoami work --json",),
    "account create": ("odf-node account create anna --password-stdin < password.txt",),
    "account list": ("odf-node account list --data /srv/odf",),
    "account disable": ("odf-node account disable anna --data /srv/odf",),
    "account enable": ("odf-node account enable anna --json",),
    "account promote": ("odf-node account promote anna",),
    "account demote": ("odf-node account demote anna --data /srv/odf",),
    "account rename": ("odf-node account rename anna anna-smith",),
    "account delete": (
        "odf-node account delete anna --datasets transfer --to bob --dry-run",
        "odf-node account delete anna --datasets remove",
    ),
    "account link": ("odf-node account link anna --subject 5f2c --issuer https://login.example",),
    "account password": ("odf-node account password anna",),
    "token create": (
        "export ODF_NODE_TOKEN=$(odf-node token create --account kamu)",
        "odf-node token create --account anna --scope write --dataset weather --expires 30d",
        "odf-node token create --node work --label laptop --expires 90d",
    ),
    "token list": ("odf-node token list --account anna", "odf-node token list --node work"),
    "token revoke": (
        "odf-node token revoke 6a1f0c2e",
        "odf-node token revoke 6a1f0c2e --node https://node.example",
    ),
    "sharing profile": (
        "odf-node sharing profile work",
        "odf-node sharing profile https://node.example --dataset weather --out anna.share",
    ),
    "access grant": ("odf-node access grant http://127.0.0.1:8080/weather bert editor",),
    "access list": ("odf-node access list work/weather",),
    "access revoke": ("odf-node access revoke http://127.0.0.1:8080/weather bert",),
    "access public": ("odf-node access public http://127.0.0.1:8080/weather",),
    "access private": ("odf-node access private http://127.0.0.1:8080/weather",),
    "dataset create": (
        "odf-node dataset create weather.yaml --node http://127.0.0.1:8080 --visibility public",
        "odf-node dataset create daily.yaml weather.yaml --node work",
        "odf-node dataset create weather.yaml --node work --dry-run --sample weather.csv",
    ),
    "dataset append": (
        "odf-node dataset append weather info.yaml --node http://127.0.0.1:8080 --dry-run",
        "odf-node dataset append http://127.0.0.1:8080/weather - < license.yaml",
    ),
    "describe": (
        "odf-node describe weather --description 'Hourly weather' --keyword weather --keyword nyc",
        "odf-node describe work/weather --license CC-BY-4.0 --readme README.md",
        "odf-node describe weather --column 'temp=Air temperature at 2 m' --unit temp=°C",
    ),
    "dataset delete": ("odf-node dataset delete http://127.0.0.1:8080/weather",),
    "dataset rename": ("odf-node dataset rename http://127.0.0.1:8080/weather weather.hourly",),
    "dataset visibility": ("odf-node dataset visibility http://127.0.0.1:8080/weather public",),
    "webhook add": ("odf-node webhook add http://127.0.0.1:8080/weather https://example.com/hook",),
    "webhook list": ("odf-node webhook list http://127.0.0.1:8080/weather",),
    "webhook ping": ("odf-node webhook ping http://127.0.0.1:8080/weather wh_6a1f0c2e",),
    "webhook remove": ("odf-node webhook remove http://127.0.0.1:8080/weather wh_6a1f0c2e",),
    "webhook replay": (
        "odf-node webhook replay http://127.0.0.1:8080/weather wh_6a1f0c2e --since beginning",
    ),
    "webhook rotate": ("odf-node webhook rotate http://127.0.0.1:8080/weather wh_6a1f0c2e",),
    "webhook show": ("odf-node webhook show http://127.0.0.1:8080/weather wh_6a1f0c2e",),
    "dataset list": (
        "odf-node dataset list --node http://127.0.0.1:8080",
        "odf-node dataset list --node http://127.0.0.1:8080 --search 'taxi trips' --sort updated",
    ),
    "dataset show": (
        "odf-node dataset show http://127.0.0.1:8080/weather",
        "odf-node dataset show weather --node http://127.0.0.1:8080 --json",
    ),
    "dataset dependencies": ("odf-node dataset dependencies http://127.0.0.1:8080/weather-daily",),
    "projection kartothek": (
        "odf-node projection kartothek weather --store file:///srv/shop --index city",
        (
            "odf-node projection kartothek weather --store s3://bucket/shop --mode state \\\n"
            "      --primary-key city"
        ),
    ),
    "projection set": (
        "odf-node projection set http://127.0.0.1:8080/weather --index city",
        (
            "odf-node projection set http://127.0.0.1:8080/weather --store s3://bucket/shop \\\n"
            "      --mode state --min-interval 10m"
        ),
    ),
    "projection show": ("odf-node projection show http://127.0.0.1:8080/weather --json",),
    "projection refresh": ("odf-node projection refresh http://127.0.0.1:8080/weather",),
    "projection withdraw": (
        "odf-node projection withdraw http://127.0.0.1:8080/weather",
        "odf-node projection withdraw weather --store file:///srv/shop",
    ),
    "publish": (
        "odf-node publish cities.csv --node http://127.0.0.1:8080",
        (
            "odf-node publish cities.csv.gz towns --node work --key city --date-order dmy \\\n"
            "      --yes --json"
        ),
    ),
    "dataset init": ("odf-node dataset init cities.csv towns -o towns.yaml",),
    "ingest": (
        "odf-node ingest weather.csv http://127.0.0.1:8080/weather",
        "zcat rows.csv.gz | odf-node ingest - http://127.0.0.1:8080/weather --media-type text/csv",
        "odf-node ingest weather.csv http://127.0.0.1:8080/weather --sign publisher",
    ),
    "retract": (
        "odf-node retract weather --key city=Oslo --key day=2026-01-01",
        "odf-node retract http://127.0.0.1:8080/weather --filter temp:gt:60 --dry-run",
    ),
    "sql": (
        (
            "odf-node sql 'select city, count(*) from weather group by city' \\\n"
            "      --node http://127.0.0.1:8080 --verify"
        ),
        "odf-node sql 'select * from weather where population > 1000' weather/ --format csv",
        (
            "odf-node sql 'select * from weather order by population' \\\n"
            "    --node http://127.0.0.1:8080 --background --format parquet -o all.parquet"
        ),
    ),
    "quota list": ("odf-node quota list",),
    "quota set": (
        "odf-node quota set anna 500GB",
        "odf-node quota set --each-account 20GB",
        "odf-node quota set --node 4TB",
        "odf-node quota set anna none",
    ),
    "refresh": ("odf-node refresh http://127.0.0.1:8080/weather-daily --recursive",),
    "mcp": ("odf-node mcp http://127.0.0.1:8080",),
    "watch": (
        "odf-node watch http://127.0.0.1:8080/weather --rows",
        "odf-node watch http://127.0.0.1:8080 --json",
    ),
    "schedule add": (
        (
            "odf-node schedule add http://127.0.0.1:8080/planes --cron '0 6 * * 1-5' \\\n"
            "      --time-zone Europe/Berlin"
        ),
        "odf-node schedule add http://127.0.0.1:8080/planes --every 600",
    ),
    "schedule list": ("odf-node schedule list http://127.0.0.1:8080/planes",),
    "schedule pause": ("odf-node schedule pause http://127.0.0.1:8080/planes ID",),
    "schedule remove": ("odf-node schedule remove http://127.0.0.1:8080/planes ID",),
    "schedule resume": ("odf-node schedule resume http://127.0.0.1:8080/planes ID",),
    "schedule runs": ("odf-node schedule runs http://127.0.0.1:8080/planes --limit 5",),
    "variable list": ("odf-node variable list http://127.0.0.1:8080/planes",),
    "variable remove": ("odf-node variable remove http://127.0.0.1:8080/planes API_TOKEN",),
    "variable rotate": ("odf-node variable rotate --data /srv/odf",),
    "variable set": (
        "odf-node variable set http://127.0.0.1:8080/planes API_TOKEN < token.txt",
        "odf-node variable set http://127.0.0.1:8080 REGION --account --value eu --plain",
    ),
    "job cancel": ("odf-node job cancel http://127.0.0.1:8080 ID",),
    "job list": (
        "odf-node job list http://127.0.0.1:8080/weather --status waiting,running",
        "odf-node job list http://127.0.0.1:8080     # one's own queries in the background",
    ),
    "job rejected": ("odf-node job rejected http://127.0.0.1:8080 ID > rejected.ndjson",),
    "job rows": ("odf-node job rows http://127.0.0.1:8080 ID -o rows.parquet",),
    "job show": ("odf-node job show http://127.0.0.1:8080 ID",),
    "pull": (
        "odf-node pull odf+https://node.example/anna/flights ./flights",
        "odf-node pull ./flights        # what is new, from where it came",
        (
            "odf-node pull --mirror odf+https://other.example/anna/flights \\\n"
            "      odf+https://mine.example/flights"
        ),
    ),
    "push": (
        "odf-node push ./flights odf+https://node.example/bert/flights --visibility public",
        "odf-node push ./flights        # what is new, to where it went last",
    ),
    "repo add": ("odf-node repo add work odf+https://node.example --token ka_…",),
    "repo list": ("odf-node repo list",),
    "repo remove": ("odf-node repo remove work",),
    "verify": (
        "odf-node verify ./flights",
        "odf-node verify https://node.example/anna/flights --replay --recursive",
    ),
    "compact": ("odf-node compact http://127.0.0.1:8080/weather --dry-run",),
    "reset": ("odf-node reset http://127.0.0.1:8080/weather --dry-run",),
    "set-watermark": ("odf-node set-watermark http://127.0.0.1:8080/weather 2026-01-01T00:00:00Z",),
    "conformance": (
        "odf-node conformance http://127.0.0.1:8080 --html report.html",
        "odf-node conformance http://127.0.0.1:8080/weather --read-only",
    ),
    "fsck": ("odf-node fsck --quick", "odf-node fsck --scrub 50M --repair --data /srv/odf"),
    "doctor": ("odf-node doctor --data /srv/odf", "odf-node doctor --json"),
    "backup make": (
        "odf-node backup /mnt/backups --keep 14",
        "odf-node backup s3://bucket/backups --key /etc/odf/backup.key --json",
    ),
    "backup list": ("odf-node backup list /mnt/backups",),
    "backup check": (
        "odf-node backup check /mnt/backups --data /srv/odf",
        "odf-node backup check s3://bucket/backups --number 12 --quick",
    ),
    "restore": (
        "odf-node restore /mnt/backups --data /srv/odf",
        (
            "odf-node restore /mnt/backups --number 12 --data /srv/odf \\\n"
            "      --database-url postgresql://odf@db/odf --objects-url s3://bucket/prefix"
        ),
    ),
    "gc": ("odf-node gc --dry-run --grace 2d",),
    "merge-state check": ("odf-node merge-state check weather --deep",),
    "merge-state drop": ("odf-node merge-state drop weather",),
    "merge-state rebuild": ("odf-node merge-state rebuild weather",),
    "index rebuild": ("odf-node index rebuild --check --data /srv/odf",),
    "audit": ("odf-node audit --since 2026-01-01T00:00:00Z --actor anna",),
    "trust list": ("odf-node trust list",),
    "trust show": ("odf-node trust show https://node.example/",),
    "trust forget": ("odf-node trust forget https://node.example/",),
    "attestations list": ("odf-node attestations list https://node.example/totals",),
    "attestations verify": ("odf-node attestations verify ./totals --claim replay",),
    "attestations add": (
        "odf-node attestations add https://node.example/totals theirs.intoto.jsonl",
    ),
    "monitor": ("odf-node monitor https://node.example/ https://other.example/",),
    "evidence": ("odf-node evidence 5a1f0c2e99d0ab34.json",),
    "keys list": ("odf-node keys list --data /srv/odf",),
    "keys export": ("odf-node keys export weather weather.pem --data /srv/odf",),
    "keys import": ("odf-node keys import weather weather.pem --data /srv/odf",),
    "keys forget": ("odf-node keys forget weather --data /srv/odf",),
    "head-log show": ("odf-node head-log show --data /srv/odf",),
    "head-log resume": ("odf-node head-log resume --accept-gap --data /srv/odf",),
    "db migrate": ("odf-node db migrate --data /srv/odf",),
    "lineage": ("odf-node lineage http://127.0.0.1:8080/weather-daily --columns",),
    "read": (
        "odf-node read ./weather --as-of 2020-06-01T00:00:00Z --limit 3",
        "odf-node read ./weather --filter city:in:Oslo,Bergen --filter temp:lt:0",
        (
            "odf-node read http://127.0.0.1:8080/weather --projection facts -o facts.parquet \\\n"
            "      --format parquet"
        ),
    ),
    "lookup": (
        "odf-node lookup http://127.0.0.1:8080/weather city=Oslo --state",
        "odf-node lookup http://127.0.0.1:8080/weather city=Oslo day=2026-01-01 --json",
    ),
    "why": (
        "odf-node why http://127.0.0.1:8080/weather 17",
        "odf-node why http://127.0.0.1:8080/weather 17 city --depth all",
        "odf-node why http://127.0.0.1:8080/weather --key Oslo",
    ),
    "log": ("odf-node log ./weather -n 5",),
    "inspect": ("odf-node inspect weather/blocks/f1620…",),
    "encode": ("odf-node inspect weather/blocks/f1620… | odf-node encode - > block",),
    "completion": ("odf-node completion bash",),
    "hash": ("odf-node hash scan.png", "odf-node hash --logical slice.parquet"),
}
"""Examples of each command, by the path of the command."""


def explain(command: click.Command, path: str) -> click.Command:
    """Add examples to the command and its subcommands, and let lists show whole first sentences."""
    if path in EXAMPLES:
        command.epilog = "\b\n" + "\n  ".join(("Examples:", *EXAMPLES[path]))
    if isinstance(command, click.Group):
        for name, each in command.commands.items():
            each.short_help = each.get_short_help_str(LONGEST_SENTENCE)
            explain(each, f"{path} {name}")
    return command
