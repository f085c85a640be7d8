-- Ends the lease of a claim at once and keeps everything else: the fingerprint above all, so that
-- only the same request takes over. One atomic step.
--
-- KEYS[1]  claim record (its fields are named in claim.lua)
-- ARGV[1]  owner token
--
-- Replies 1 when the claim is released; 0 when it is another owner's, completed or gone, and
-- nothing was written.

local record = redis.call('HMGET', KEYS[1], 'o', 's')
if record[1] ~= ARGV[1] or record[2] == 'completed' then
  return 0
end
redis.call('HSET', KEYS[1], 's', 'released')
return 1
