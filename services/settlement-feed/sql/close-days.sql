-- Closes the days of which all that was told is in its batch.
--
-- $1 for how many milliseconds a day is kept open after its end. A row: when the first day that is
-- open ends, null before the first was closed; and whether there is more to look at.
SELECT (closed + 2)::timestamp AT TIME ZONE 'UTC' AS "openUntil",
       coalesce(complete - complete_through >= interval '2 minutes', false) AS more
FROM partners.settlement_calendar
CROSS JOIN LATERAL settlement.told_and_applied(complete_through) AS complete
CROSS JOIN LATERAL partners.close_settlement_days(
  complete, $1::float8 * interval '1 millisecond'
) AS closed
