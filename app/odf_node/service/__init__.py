"""The service: one package a feature, its routes beside its use cases."""
