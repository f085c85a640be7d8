-- Who may send payments, by which keys, and where their webhooks go.

CREATE TABLE partners (
  id text PRIMARY KEY CHECK (id ~ '^[a-z0-9][a-z0-9-]{0,62}$'),
  created_at timestamptz NOT NULL DEFAULT now()
);

-- A key is never stored, only what SHA-256 makes of it: keys are random enough that no salt is
-- needed, and a leaked table authenticates nobody.
CREATE TABLE api_keys (
  sha256 bytea PRIMARY KEY CHECK (length(sha256) = 32),
  partner_id text NOT NULL REFERENCES partners,
  created_at timestamptz NOT NULL DEFAULT now(),
  revoked_at timestamptz
);

-- Secrets are kept as they are, because every webhook is signed with them. Newest first; a second
-- one only while they rotate.
CREATE TABLE webhook_endpoints (
  partner_id text PRIMARY KEY REFERENCES partners,
  url text NOT NULL,
  secrets jsonb NOT NULL CHECK (
    jsonb_typeof(secrets) = 'array' AND jsonb_array_length(secrets) BETWEEN 1 AND 2
  ),
  updated_at timestamptz NOT NULL DEFAULT now()
);

GRANT SELECT, INSERT, UPDATE, DELETE ON partners, api_keys, webhook_endpoints TO triplock_partners;
GRANT SELECT ON partners, api_keys TO triplock_gateway;
GRANT SELECT ON partners, webhook_endpoints TO triplock_notifier;
-- The auditor reads everything but secrets.
GRANT SELECT ON partners TO triplock_auditor;
GRANT SELECT (partner_id, url, updated_at) ON webhook_endpoints TO triplock_auditor;
