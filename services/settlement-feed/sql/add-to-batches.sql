-- Adds transactions that succeeded to the batches of their partner, day and currency; runs in the
-- transaction of their events' inbox rows.
--
-- Of each $1 partner id, $2 day, $3 currency, $4 whether it is a refund, $5 amount in minor units.
-- No rows. Batches are taken in one order, so that two that add do not wait in a circle.
INSERT INTO partners.settlement_batches AS known (partner_id, day, currency, gross, refunds, payments, refund_count)
SELECT partner_id, day, currency,
       coalesce(sum(amount) FILTER (WHERE NOT refund), 0),
       coalesce(sum(amount) FILTER (WHERE refund), 0),
       count(*) FILTER (WHERE NOT refund),
       count(*) FILTER (WHERE refund)
FROM unnest($1::text[], $2::date[], $3::text[], $4::boolean[], $5::bigint[])
  AS t (partner_id, day, currency, refund, amount)
GROUP BY partner_id, day, currency
ORDER BY partner_id, day, currency
ON CONFLICT (partner_id, day, currency) DO UPDATE SET
  gross = known.gross + excluded.gross,
  refunds = known.refunds + excluded.refunds,
  payments = known.payments + excluded.payments,
  refund_count = known.refund_count + excluded.refund_count
