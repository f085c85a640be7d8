-- What the last scheduled audit found, whoever made it. Always one row.
SELECT took_ms AS "tookMs", drift, in_flight AS "inFlight" FROM scheduled_audit
