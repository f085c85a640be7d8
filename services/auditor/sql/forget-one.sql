-- Takes out of the book what the provider has no longer.
--
-- $1 kind, $2 id.
DELETE FROM provider_book WHERE kind = $1 AND id = $2
