-- Notes that the request of a claim gets its answer, which is a function of the request and needs
-- no place here. One atomic step.
--
-- KEYS[1]  claim record (its fields are named in claim.lua)
-- ARGV[1]  life of the record in milliseconds, which begins anew: a key is known for so long,
--          however late after its claim it was answered
-- ARGV[2]  owner token
--
-- Replies 1 when it is completed, also when this owner had done it before; 0 when the claim is
-- another owner's or gone, and nothing was written. The last owner may complete after its lease or
-- its release: as long as it was not taken over, its answer is the only one.

if redis.call('HGET', KEYS[1], 'o') ~= ARGV[2] then
  return 0
end
redis.call('HSET', KEYS[1], 's', 'completed')
-- Nobody is at work any more, and a day of leases that mean nothing is memory.
redis.call('HDEL', KEYS[1], 'l')
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1
