-- What the last scheduled audit found, of whichever auditor. Always one row; `endedAt` is null
-- before the first.
SELECT
  took_ms AS "tookMs",
  ended_at AS "endedAt",
  drift,
  in_flight AS "inFlight",
  in_flight_since AS "inFlightSince"
FROM scheduled_audit
