"""ODF Node: a repository node for Open Data Fabric.

Everything the distribution installs lies in this package. In a checkout its rooms are links to the
folders of the root: `odf_node.storage` is `storage/`.
"""
