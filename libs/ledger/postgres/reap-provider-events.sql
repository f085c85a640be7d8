-- Takes some events of the provider out that came long ago.
--
-- $1 rows at most. One row without content.
SELECT ledger.reap_provider_events($1::integer)
