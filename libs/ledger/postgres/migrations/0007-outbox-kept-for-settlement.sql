-- The settlement feed's inbox must remember an event for as long as it can be republished, too.
GRANT USAGE ON SCHEMA ledger TO triplock_settlement;
GRANT EXECUTE ON FUNCTION ledger.outbox_kept() TO triplock_settlement;
