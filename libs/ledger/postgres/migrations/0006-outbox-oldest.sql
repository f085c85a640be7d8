-- What a setting says of the outbox is not yet true of it: events of a longer setting leave in small
-- batches only, and two dispatchers may have different ones. So a consumer's inbox is also told how old
-- the oldest event is that is still there, and remembers that one whatever the setting says.

-- For how long the last reaper was told to keep events (null until one ran), and how old the oldest
-- one is that was published and may be again, or waits to be (null: there is none).
--
-- A key conflict stays for ever in both tables, and what is parked is not published.
CREATE FUNCTION ledger.outbox_kept(OUT kept_for interval, OUT oldest interval)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog AS $$
  SELECT
    (SELECT horizon.kept_for FROM ledger.outbox_horizon AS horizon),
    now() - least(
      (SELECT min(published_at) FROM ledger.outbox
       WHERE state = 'published' AND sequence IS NOT NULL),
      -- Also one that waits to be published once more: when it was so before is no longer known.
      (SELECT min(created_at) FROM ledger.outbox
       WHERE state = 'pending' AND sequence IS NOT NULL)
    )
$$;

REVOKE EXECUTE ON FUNCTION ledger.outbox_kept() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION ledger.outbox_kept() TO triplock_notifier;
