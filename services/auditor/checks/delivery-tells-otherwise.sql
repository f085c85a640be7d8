-- Deliveries to another partner than the event's, or with another content than the event.
--
-- An event ends with what its webhook says, so nearly always its last bytes show that they agree;
-- only where they do not are both read.
SELECT deliveries.event_id::text AS id, deliveries.created_at AS since
FROM notifier.deliveries
JOIN ledger.outbox USING (event_id)
WHERE deliveries.partner_id <> outbox.partner_id
  OR CASE
    WHEN substr(convert_to(deliveries.body, 'UTF8'), 2) = substr(
      convert_to(outbox.payload, 'UTF8'),
      octet_length(outbox.payload) - octet_length(deliveries.body) + 2
    )
    THEN false
    ELSE (
      deliveries.body::json ->> 'type',
      deliveries.body::json ->> 'sequence',
      deliveries.body::json ->> 'data'
    ) IS DISTINCT FROM (
      outbox.payload::json ->> 'type',
      outbox.payload::json ->> 'sequence',
      outbox.payload::json ->> 'data'
    )
  END
