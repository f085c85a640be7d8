-- Counts deliveries of events, each of another event.
--
-- $1 event ids, $2 types, $3 transaction ids, $4 payment ids, $5 partner ids, $6 sequences or
-- nulls, $7 payload hashes, $8 currencies and $9 amounts, each null where the event has none. All
-- of one length.
-- One row for each: how many copies there are now, and the hash of the first.
-- Sorted by id, so that two auditors that share ids in opposite order do not deadlock.
INSERT INTO published
  (event_id, event_type, txn_id, payment_id, partner_id, sequence, payload_hash, currency, amount)
SELECT *
FROM unnest($1::uuid[], $2::text[], $3::uuid[], $4::uuid[], $5::text[], $6::integer[], $7::text[],
            $8::text[], $9::bigint[])
     AS t (event_id, event_type, txn_id, payment_id, partner_id, sequence, payload_hash, currency,
           amount)
ORDER BY event_id
ON CONFLICT (event_id) DO UPDATE SET
  copies = published.copies + 1,
  altered = published.altered + (published.payload_hash <> excluded.payload_hash)::integer,
  last_seen = now()
RETURNING event_id, copies, payload_hash AS known_hash
