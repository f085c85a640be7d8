-- Refunds go the same way as payments, and need not say how much: what is not said is null.

ALTER TABLE accepted
  ADD COLUMN kind text NOT NULL DEFAULT 'payment' CHECK (kind IN ('payment', 'refund')),
  -- A refund's payment.
  ADD COLUMN payment_id uuid,
  ALTER COLUMN currency DROP NOT NULL,
  ALTER COLUMN amount DROP NOT NULL,
  ADD CHECK ((kind = 'refund') = (payment_id IS NOT NULL)),
  ADD CHECK (kind = 'refund' OR amount IS NOT NULL AND currency IS NOT NULL);
-- Of the rows that are here already; from now on everyone says it.
ALTER TABLE accepted ALTER COLUMN kind DROP DEFAULT;

-- A refund that failed because nothing of it fitted tells of no amount, or of no currency.
ALTER TABLE published
  ALTER COLUMN currency DROP NOT NULL,
  ALTER COLUMN amount DROP NOT NULL;
