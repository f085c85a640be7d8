-- Settlement batches as partners see them.

-- name: listSettlements
-- A partner's settlement batches of one day, as they were added up.
--
-- $1 partner id, $2 day.
-- A row: one currency. Always a row, without a `currency` when nothing of the partner is in the
-- day: `isClosed` says that it never changes again; all that was told before `completeThrough` is
-- in it, or in the day that it belongs to.
SELECT currency, gross, refunds, net, payments, refund_count AS "refundCount",
       coalesce(closed_through >= $2::date, false) AS "isClosed",
       CASE WHEN complete_through IS NOT NULL THEN
         least(complete_through, ($2::date + 1)::timestamp AT TIME ZONE 'UTC')
       END AS "completeThrough"
FROM partners.settlement_calendar
LEFT JOIN partners.settlement_batches ON partner_id = $1 AND day = $2::date
ORDER BY currency

-- name: sumSettlements
-- What all of a partner's settlement batches come to.
--
-- $1 partner id.
-- A row: one currency; settled is of the days that are closed, open of later ones. It reads a row
-- for each day and currency, however many payments there were.
SELECT currency,
       coalesce(sum(net) FILTER (WHERE day <= closed_through), 0)::bigint AS settled,
       coalesce(sum(net) FILTER (WHERE (day <= closed_through) IS NOT true), 0)::bigint AS open,
       sum(refunds)::bigint AS refunds
FROM partners.settlement_batches, partners.settlement_calendar
WHERE partner_id = $1
GROUP BY currency
ORDER BY currency

-- name: listLines
-- One page of what a partner's batches are the sums of, newest day first, and of a day what was
-- added last.
--
-- $1 partner id, $2 day or null for all, $3 currency or null for all, $4 rows at most, $5 and $6
-- the day and number of the last line on the page before, or nulls for the first page.
SELECT line.*
FROM (SELECT DISTINCT currency FROM partners.settlement_batches WHERE partner_id = $1) AS known
CROSS JOIN LATERAL (
  SELECT day::text AS day, line_id AS "lineId", txn_id AS "txnId", kind, currency, amount,
         settled_at AS "settledAt"
  FROM partners.settlement_lines AS its
  WHERE partner_id = $1 AND currency = known.currency
    AND its.day >= coalesce($2::date, '-infinity') AND its.day <= coalesce($2::date, 'infinity')
    AND (its.day, line_id) < (coalesce($5::date, 'infinity'), coalesce($6::bigint, 0))
  ORDER BY its.day DESC, line_id DESC
  LIMIT $4
) AS line
WHERE $3::text IS NULL OR known.currency = $3
ORDER BY line.day DESC, line."lineId" DESC
LIMIT $4

-- name: hasLine
-- Whether a partner has such a line. $1 partner id, $2 day, $3 number. A row: it has.
SELECT
FROM (SELECT DISTINCT currency FROM partners.settlement_batches WHERE partner_id = $1) AS known
WHERE EXISTS (
  SELECT FROM partners.settlement_lines AS its
  WHERE partner_id = $1 AND its.currency = known.currency AND day = $2::date AND line_id = $3::bigint
)

-- name: readStatement
-- What a partner's account was before a day and what came to it in it, by currency, kind and the
-- day in which it was settled.
--
-- $1 partner id, $2 day.
-- A row: what of one kind was settled on one day; a currency without any in the day, and every one
-- while the day is open, has one row without a `kind`. No row: nothing of the partner is in this
-- day or one before it. `isClosed` says that all of it never changes again.
SELECT known.currency, known.opening, sums.kind, sums.settled_on::text AS "settledOn", sums.count,
       sums.amount, coalesce(closed_through >= $2::date, false) AS "isClosed"
FROM partners.settlement_calendar
CROSS JOIN (
  SELECT currency, coalesce(sum(net) FILTER (WHERE day < $2::date), 0)::bigint AS opening
  FROM partners.settlement_batches
  WHERE partner_id = $1 AND day <= $2::date
  GROUP BY currency
) AS known
LEFT JOIN partners.settlement_sums AS sums
  ON sums.partner_id = $1 AND sums.day = $2::date AND sums.currency = known.currency
  AND $2::date <= closed_through
ORDER BY known.currency, sums.settled_on, sums.kind
