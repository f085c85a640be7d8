-- Begins a walk again whose place the provider does not know any more.
--
-- $1 kind, $2 the cursor.
UPDATE provider_walks SET newest = NULL, cursor = NULL WHERE kind = $1 AND cursor = $2
