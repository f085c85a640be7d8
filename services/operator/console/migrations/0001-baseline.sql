-- What the console may read of the system. It writes nothing there: what operators do is done by the
-- role of each kind of act.
GRANT USAGE ON SCHEMA ledger, partners, notifier, settlement, auditor TO triplock_console;
GRANT SELECT ON ALL TABLES IN SCHEMA ledger, notifier, settlement, auditor TO triplock_console;
GRANT SELECT ON partners.partners, partners.shown_webhook_endpoints, partners.endpoint_tests, partners.acts
TO triplock_console;
-- Keys by what may be shown of them.
GRANT SELECT (partner_id, prefix, created_at, revoked_at) ON partners.api_keys TO triplock_console;
-- Claims as the auditor sees them: what partners wrote is none of its business.
GRANT USAGE ON SCHEMA claims TO triplock_console;
GRANT SELECT (namespace, txn_id, fingerprint, state, expires_at, partner, accepted_at, record_key)
ON claims.claims TO triplock_console;
