-- Ends an effect: with its result, its failure, or nothing, so that the next one may start it.
--
-- KEYS[1]  record of the key
-- ARGV[1]  owner token
-- ARGV[2]  'completed', 'failed' or 'released'
-- ARGV[3]  result as JSON text, '' for 'released'
--
-- Replies 1: it is written, also when this owner had written it before; 0: another one took over or
-- finished, or the key is gone, and nothing was written. The last owner may finish after its lease:
-- as long as it was not taken over, its result is the only one.

local record = redis.call('HMGET', KEYS[1], 'owner', 'state')
if record[1] ~= ARGV[1] or (record[2] ~= 'in-flight' and record[2] ~= ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], 'state', ARGV[2], 'result', ARGV[3])
return 1
