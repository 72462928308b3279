"""Login by an identity provider (OpenID Connect)."""
