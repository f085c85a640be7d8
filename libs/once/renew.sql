-- Makes a lease last from now on. One atomic step.
--
-- $1 scope, $2 key, $3 owner token, $4 lease in milliseconds.
-- A row: it lasts. No row: another one took over, or the effect is finished or released.
UPDATE once SET lease_until = clock_timestamp() + $4 * interval '1 ms'
WHERE scope = $1 AND key = $2 AND owner = $3 AND state = 'in-flight'
RETURNING key
