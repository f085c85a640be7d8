-- Makes the deliveries of events; runs in the transaction of their inbox rows.
--
-- Of each event $1 its id, $2 partner id, $3 transaction id, $4 body, $5 traceparent or null.
-- Nothing happens for an event that has a delivery: its inbox row left long ago, the delivery did
-- not.
INSERT INTO deliveries (event_id, partner_id, txn_id, body, traceparent)
SELECT event_id, partner_id, txn_id, body, traceparent
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::text[], $5::text[])
  AS t (event_id, partner_id, txn_id, body, traceparent)
ORDER BY event_id
ON CONFLICT (event_id) DO NOTHING
