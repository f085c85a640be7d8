-- Every partner with its keys, each key's secret part left out.
--
-- A row: one partner, `keys` the oldest first. Times are texts in UTC.
SELECT id, coalesce(
  jsonb_agg(
    jsonb_build_object('prefix', prefix, 'created_at', k.created_at, 'revoked_at', revoked_at)
    ORDER BY k.created_at, sha256
  ) FILTER (WHERE sha256 IS NOT NULL), '[]'
) AS keys
FROM partners.partners
LEFT JOIN partners.api_keys AS k ON partner_id = id
GROUP BY id
ORDER BY id
