-- Makes a partner's webhook deliveries of a window due now, by the function that the notifier lends
-- for it.
--
-- $1 partner id, $2 idempotency key, $3 fingerprint, $4 since, $5 until or null for now, $6 state
-- or null for any, $7 deliveries at most, but for those of one moment.
-- Always one row. Times are texts, because a JavaScript date would cut the microseconds off, and
-- going on from such a time would take deliveries twice.
SELECT outcome, state, deliveries,
       to_char(since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS since,
       to_char(until AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS until,
       to_char(next_since AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') AS next_since
FROM notifier.redeliver_window($1, $2, $3, $4, $5, $6, $7)
