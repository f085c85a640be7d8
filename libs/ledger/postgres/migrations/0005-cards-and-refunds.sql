-- Cards and refunds. A payment that a provider has to charge, and every refund, is pending for a
-- while: its row says who may look after it next and when, and what was stored at the provider.

ALTER TABLE ledger.transactions
  -- A refund's payment, by which its record, its events and its cap are ordered.
  ADD COLUMN payment_id uuid,
  -- What the partner asked a refund to give back; null: all that is left when it is posted.
  ADD COLUMN requested_amount bigint CHECK (requested_amount BETWEEN 1 AND 999999999999),
  ADD COLUMN reason text,
  -- The provider's ids of what moved the money; the intent's own is stored before it is confirmed.
  ADD COLUMN provider_charge_id text,
  ADD COLUMN provider_refund_id text,
  -- When somebody other than the one at work looks after a pending row; null once it is final.
  ADD COLUMN due_at timestamptz(3),
  -- Of the request, for the event that a later process writes; null where posting settled at once.
  ADD COLUMN traceparent text,
  -- A refund has neither until they are reserved on its payment.
  ALTER COLUMN amount DROP NOT NULL,
  ALTER COLUMN currency DROP NOT NULL;

-- Rows that were pending before had nobody to look after them.
UPDATE ledger.transactions SET due_at = now(), version = version + 1 WHERE state = 'pending';

ALTER TABLE ledger.transactions
  ADD CONSTRAINT refund_of_a_payment CHECK ((kind = 'refund') = (payment_id IS NOT NULL)),
  ADD CONSTRAINT amount_with_currency CHECK ((amount IS NULL) = (currency IS NULL)),
  ADD CONSTRAINT payment_has_an_amount CHECK (kind = 'refund' OR amount IS NOT NULL),
  ADD CONSTRAINT refunded_has_an_amount CHECK (state <> 'succeeded' OR amount IS NOT NULL),
  ADD CONSTRAINT due_while_pending CHECK ((state = 'pending') = (due_at IS NOT NULL));

CREATE INDEX transactions_due ON ledger.transactions (due_at) WHERE state = 'pending';
CREATE INDEX refunds_of_a_payment ON ledger.transactions (payment_id, created_at, txn_id)
  WHERE kind = 'refund';

CREATE OR REPLACE FUNCTION ledger.guard_transaction() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF ROW(NEW.txn_id, NEW.kind, NEW.partner_id, NEW.idempotency_key, NEW.fingerprint,
         NEW.response_version, NEW.payment_id, NEW.requested_amount, NEW.payment_method,
         NEW.reference, NEW.description, NEW.metadata, NEW.reason, NEW.created_at)
     IS DISTINCT FROM
     ROW(OLD.txn_id, OLD.kind, OLD.partner_id, OLD.idempotency_key, OLD.fingerprint,
         OLD.response_version, OLD.payment_id, OLD.requested_amount, OLD.payment_method,
         OLD.reference, OLD.description, OLD.metadata, OLD.reason, OLD.created_at) THEN
    RAISE EXCEPTION 'transaction %: what was asked for never changes', OLD.txn_id;
  END IF;
  IF OLD.amount IS NOT NULL
     AND ROW(NEW.amount, NEW.currency) IS DISTINCT FROM ROW(OLD.amount, OLD.currency) THEN
    RAISE EXCEPTION 'transaction %: an amount never changes', OLD.txn_id;
  END IF;
  IF OLD.provider_intent_id IS NOT NULL
     AND ROW(NEW.provider, NEW.provider_intent_id)
     IS DISTINCT FROM ROW(OLD.provider, OLD.provider_intent_id) THEN
    RAISE EXCEPTION 'transaction %: a stored intent never changes', OLD.txn_id;
  END IF;
  IF OLD.state <> 'pending'
     AND ROW(NEW.state, NEW.settled_at, NEW.failure_code, NEW.failure_message, NEW.amount,
             NEW.currency, NEW.provider, NEW.provider_intent_id, NEW.provider_charge_id,
             NEW.provider_refund_id)
     IS DISTINCT FROM
     ROW(OLD.state, OLD.settled_at, OLD.failure_code, OLD.failure_message, OLD.amount,
         OLD.currency, OLD.provider, OLD.provider_intent_id, OLD.provider_charge_id,
         OLD.provider_refund_id) THEN
    RAISE EXCEPTION 'transaction %: what is final never changes', OLD.txn_id;
  END IF;
  IF NEW.version <= OLD.version OR NEW.events < OLD.events THEN
    RAISE EXCEPTION 'transaction %: version grows with every change, events never shrink', OLD.txn_id;
  END IF;
  RETURN NEW;
END
$$;

GRANT UPDATE (amount, currency, provider_charge_id, provider_refund_id, due_at)
  ON ledger.transactions TO triplock_ledger;
