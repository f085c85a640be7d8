-- Closes the days of which all that was told is in its batch.
--
-- $1 for how many milliseconds a day is kept open after its end. A row: the last day that is
-- closed, null before the first, and for how many seconds the day behind it is over.
SELECT closed::text AS closed,
       extract(epoch FROM now() - (closed + 2)::timestamp AT TIME ZONE 'UTC')::float8 AS "overSeconds"
FROM partners.settlement_calendar
CROSS JOIN LATERAL settlement.told_and_applied(complete_through) AS complete
CROSS JOIN LATERAL partners.close_settlement_days(
  complete, $1::float8 * interval '1 millisecond'
) AS closed
