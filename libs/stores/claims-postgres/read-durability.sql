-- Whether a commit that was acknowledged to this role outlives a crash of the server.
--
-- Always one row: the settings `fsync` and `synchronous_commit` as they are in this session.
SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS synchronous_commit
