-- Ends an effect: with its result, its failure, or nothing, so that the next one may start it.
--
-- $1 scope, $2 key, $3 owner token, $4 `completed`, `failed` or `released`, $5 result as JSON text,
-- null for `released`.
-- A row: it is written, also when this owner had written it before. No row: another one took over
-- or finished, and nothing was written. The last owner may finish after its lease: as long as
-- nobody took over, its result is the only one.
UPDATE once SET state = $4, result = $5
WHERE scope = $1 AND key = $2 AND owner = $3 AND state IN ('in-flight', $4)
RETURNING key
