-- Takes guard 2 out of a database: a payment is posted as often as its record comes.
--
-- No parameters, no rows. Every key goes by which a second posting would be known: those of the
-- transaction, and those of the entry and the event that commit with it. Posting itself stays as it
-- is: its ON CONFLICT names no key, so it finds none to conflict with.

ALTER TABLE ledger.transactions DROP CONSTRAINT IF EXISTS one_transaction_per_key;
-- The entries refer to it.
ALTER TABLE ledger.transactions DROP CONSTRAINT IF EXISTS transactions_pkey CASCADE;
ALTER TABLE ledger.entries DROP CONSTRAINT IF EXISTS entries_pkey;
ALTER TABLE ledger.outbox DROP CONSTRAINT IF EXISTS one_event_per_sequence;
ALTER TABLE ledger.outbox DROP CONSTRAINT IF EXISTS outbox_pkey;
