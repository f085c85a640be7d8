-- Adds transactions that succeeded to the batches of their partner, day and currency; runs in the
-- transaction of their events' inbox rows.
--
-- Of each $1 partner id, $2 transaction id, $3 kind, $4 currency, $5 amount in minor units, below
-- zero of what is given back, $6 when it was settled. One row, which says nothing.
SELECT partners.add_settlements(
  $1::text[], $2::uuid[], $3::text[], $4::text[], $5::bigint[], $6::timestamptz[]
)
