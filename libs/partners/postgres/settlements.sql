-- Settlement batches as partners see them.

-- name: listSettlements
-- A partner's settlement batches of one day, as they were added up.
--
-- $1 partner id, $2 day.
-- A row: one currency. No row: nothing of the partner succeeded on that day.
SELECT day::text AS date, currency, gross, refunds, net, payments, refund_count AS "refundCount"
FROM partners.settlement_batches
WHERE partner_id = $1 AND day = $2::date
ORDER BY currency

-- name: sumSettlements
-- What all of a partner's settlement batches come to.
--
-- $1 partner id, $2 the day that is not over.
-- A row: one currency; settled is of the days before, open of that day and later ones. It reads a
-- row for each day and currency, however many payments there were.
SELECT currency,
       coalesce(sum(net) FILTER (WHERE day < $2::date), 0)::bigint AS settled,
       coalesce(sum(net) FILTER (WHERE day >= $2::date), 0)::bigint AS open,
       sum(refunds)::bigint AS refunds
FROM partners.settlement_batches
WHERE partner_id = $1
GROUP BY currency
ORDER BY currency
