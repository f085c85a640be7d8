-- Settlement batches as partners see them.

-- name: listSettlements
-- A partner's settlement batches of one day, as the settlement feed has added them up.
--
-- $1 partner id, $2 day.
-- A row: one currency. No row: nothing of the partner succeeded on that day.
SELECT day::text AS date, currency, gross, refunds, net, payments, refund_count AS "refundCount"
FROM settlement.batches
WHERE partner_id = $1 AND day = $2::date
ORDER BY currency
