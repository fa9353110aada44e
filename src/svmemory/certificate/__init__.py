"""Evidence of a deletion: signed certificates, their log, and a verifier that trusts nobody."""
