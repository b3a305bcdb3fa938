"""The client; `_sync` is generated from it."""
