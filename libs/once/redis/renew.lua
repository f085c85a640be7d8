-- Makes a lease last from now on. One atomic step.
--
-- KEYS[1]  record of the key
-- ARGV[1]  owner token
-- ARGV[2]  lease in milliseconds
--
-- Replies 1: it lasts; 0: another one took over, or the effect is finished or released, and nothing
-- was written.

local record = redis.call('HMGET', KEYS[1], 'owner', 'state')
if record[1] ~= ARGV[1] or record[2] ~= 'in-flight' then
  return 0
end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'lease_until', time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2])
return 1
