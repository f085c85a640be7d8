-- Looks for a kept answer.
--
-- KEYS[1]  where it is kept
--
-- Replies { now, fingerprint, answer }: the server's time in milliseconds, and the answer; nothing
-- after `now` when there is none.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local kept = redis.call('HMGET', KEYS[1], 'fingerprint', 'answer')
if not kept[1] or not kept[2] then
  return { now }
end
return { now, kept[1], kept[2] }
