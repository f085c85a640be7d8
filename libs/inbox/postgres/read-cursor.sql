-- How far a consumer is in a payment.
--
-- $1 consumer, $2 payment id.
-- A row: every sequence up to `last_sequence` took effect. No row: none did.
SELECT last_sequence FROM cursors WHERE consumer = $1 AND payment_id = $2
