-- A delivery keeps the context of the trace that led to it, so that an attempt is part of that trace
-- hours later too. Deliveries from before this have none.
ALTER TABLE deliveries ADD COLUMN traceparent text;
GRANT INSERT (traceparent) ON deliveries TO triplock_notifier;
