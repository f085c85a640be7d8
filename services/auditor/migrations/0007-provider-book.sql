-- What the provider itself says it charged and gave back, as its lists told it: the other side of the
-- ledger's books. It is a copy, and can be read again whole at any time.

CREATE TABLE provider_book (
  kind text NOT NULL CHECK (kind IN ('intent', 'charge', 'refund')),
  -- The provider's.
  id text NOT NULL,
  status text NOT NULL CHECK (status IN ('unconfirmed', 'pending', 'succeeded', 'failed')),
  amount bigint NOT NULL,
  currency text NOT NULL,
  -- The provider's clock, whole seconds.
  created_at timestamptz NOT NULL,
  intent_id text,
  -- What every object of ours says; null for a refund that somebody else made of a charge of ours.
  txn_id uuid,
  partner_id text,
  -- When it was told last.
  seen_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (kind, id)
);
CREATE INDEX provider_book_by_transaction ON provider_book (txn_id, kind);

CREATE VIEW intents AS SELECT * FROM provider_book WHERE kind = 'intent';
CREATE VIEW charges AS SELECT * FROM provider_book WHERE kind = 'charge';
CREATE VIEW refunds AS SELECT * FROM provider_book WHERE kind = 'refund';

-- How far each list was read. A list is newest first, so it is known to its end only when it was walked
-- back to where an earlier walk began; one that was interrupted goes on where it was.
CREATE TABLE provider_walks (
  kind text PRIMARY KEY CHECK (kind IN ('intent', 'charge', 'refund')),
  -- Older ones are none of ours: this system did not exist.
  since timestamptz(3) NOT NULL,
  -- All that was made before this is in the book. The provider's clock.
  known_until timestamptz(3) NOT NULL,
  -- Of a walk under way: the newest that it has seen, and where its next page begins.
  newest timestamptz(3),
  cursor text,
  -- Of a walk over everything: when it began. What it does not meet is no longer there.
  everything_since timestamptz(3),
  -- When the last walk came to its end.
  walked_at timestamptz NOT NULL DEFAULT now()
);
-- Clocks differ by less than an hour.
INSERT INTO provider_walks (kind, since, known_until)
SELECT kind, beginning, beginning
FROM unnest(ARRAY['intent', 'charge', 'refund']) AS kind, (
  SELECT least(now(), (SELECT min(created_at) FROM ledger.transactions)) - interval '1 hour' AS beginning
) AS system;

GRANT SELECT, INSERT, UPDATE, DELETE ON provider_book TO triplock_auditor;
GRANT SELECT ON intents, charges, refunds TO triplock_auditor;
GRANT SELECT, UPDATE ON provider_walks TO triplock_auditor;
