-- Stores what the ledger must have passed before the bucket's silence means anything.
--
-- KEYS[1]  warm marker of the bucket (see warm-marker.lua)
-- ARGV[1]  epoch that was noted before the barrier was read
-- ARGV[2]  barrier
-- ARGV[3]  '1' when nothing was ever accepted, so that nothing can have been lost; else '0'
--
-- Replies 1 when it was stored; 0 when the epoch is over or has a barrier, and nothing was written.
--
-- Why this order is safe. The barrier is read strictly after its epoch was noted, so it covers all
-- that was in the topic when the claims were lost. Were they lost again between the two, the
-- epoch would no longer be there and this barrier, which is too low for the second loss, is
-- refused. Who dies between the two leaves an epoch without a barrier: the bucket stays cold, and
-- the next one to ask reads a later barrier for the same epoch, which covers even more. For the
-- same reason two may race: the first wins, and either barrier would do.

local marker = redis.call('HMGET', KEYS[1], 'epoch', 'barrier')
if marker[1] ~= ARGV[1] or marker[2] then
  return 0
end
redis.call('HSET', KEYS[1], 'barrier', ARGV[2], 'warm', ARGV[3])
return 1
