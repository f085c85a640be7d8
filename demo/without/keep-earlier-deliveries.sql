-- Where deliveries go that another one takes the place of, to be counted; empty unless the inbox
-- forgets. No parameters, no rows.
CREATE TABLE IF NOT EXISTS notifier.earlier_deliveries (LIKE notifier.deliveries);
GRANT SELECT ON notifier.earlier_deliveries TO triplock_auditor;
