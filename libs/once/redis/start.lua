-- Starts an effect, or says what became of it. One atomic step.
--
-- KEYS[1]  record of the key
-- ARGV[1]  owner token, new for every start
-- ARGV[2]  fingerprint
-- ARGV[3]  lease in milliseconds
-- ARGV[4]  how long the key is kept, in milliseconds
--
-- Replies: { 'started', fence }            ours to do
--          { 'completed', result }         done before
--          { 'failed', result }            failed for good before
--          { 'reused' }                    the key belongs to another fingerprint
--          { 'in-flight', lease_left_ms }  another owner is at work
-- Only 'started' writes. The order of the checks and the clock are those of claim.lua.
--
-- The fence is the server's time in microseconds, and more than the last one: so it grows also
-- after the record has expired or was lost, as long as nobody sets the clock back.

local time = redis.call('TIME')
local micros = time[1] * 1000000 + time[2]
local now = math.floor(micros / 1000)
local record = redis.call('HMGET', KEYS[1], 'fingerprint', 'state', 'owner', 'lease_until', 'fence', 'result')

if record[1] then
  if record[1] ~= ARGV[2] then
    return { 'reused' }
  end
  if record[2] == 'completed' or record[2] == 'failed' then
    return { record[2], record[6] }
  end
  if record[2] == 'in-flight' and record[3] ~= ARGV[1] and tonumber(record[4]) > now then
    return { 'in-flight', record[4] - now }
  end
  micros = math.max(micros, record[5] + 1)
end

-- A plain conversion of so large a number would round it.
local fence = string.format('%.0f', micros)
redis.call('HSET', KEYS[1],
  'fingerprint', ARGV[2], 'state', 'in-flight', 'owner', ARGV[1],
  'lease_until', now + ARGV[3], 'fence', fence)
if not record[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[4])
end
return { 'started', fence }
