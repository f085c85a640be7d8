-- How often a delivery failed since it was made or asked for again last: by that the next pause grows.
-- `attempts` goes on counting, because it is the fence of whoever was overtaken.
ALTER TABLE deliveries ADD COLUMN first_attempt integer NOT NULL DEFAULT 1;
GRANT UPDATE (first_attempt) ON deliveries TO triplock_notifier;
