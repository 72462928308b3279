"""A feature as another package would have it: it greets datasets.

The record names attributes of the modules beside this one; each program of a node imports those
that it uses, so this module imports nothing else.
"""

from odf_storage.runtime.features import Feature

FEATURE = Feature(
    name="toy",
    settings="odf_toy.service:ToySettings",
    parts="odf_toy.service:parts",
    dataset_routes=("odf_toy.service:add_routes",),
    runners="odf_toy.service:runners",
    page_part="odf_toy.service:page_part",
    commands={"greet": ("odf_toy.command:greet", "Greet somebody.")},
    jobs={"toy.greet": "odf_toy.job:greet"},
    errors={"TooShy": 418},
)
