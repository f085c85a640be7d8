-- Stores the answer of a claim for replay. One atomic step.
--
-- KEYS[1]  claim record
-- ARGV[1]  owner token
-- ARGV[2]  status, ARGV[3] location, ARGV[4] body of the answer
-- ARGV[5]  life of the record in milliseconds, which begins anew: an answer is kept for so long,
--          however late after its claim it was given
--
-- Replies 1 when the answer is stored, also when this owner had stored it before; 0 when the claim
-- is another owner's or gone, and nothing was written. The last owner may complete after its lease
-- or its release: as long as it was not taken over, its answer is the only one.

if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'state', 'completed', 'status', ARGV[2], 'location', ARGV[3], 'body', ARGV[4])
redis.call('PEXPIRE', KEYS[1], ARGV[5])
return 1
