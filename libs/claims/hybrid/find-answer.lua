-- Looks for a kept answer.
--
-- KEYS[1]  answer of the id
--
-- Replies { now, fingerprint, status, location, body }: the server's time in milliseconds, and the
-- answer; nothing after `now` when there is none.

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local answer = redis.call('HMGET', KEYS[1], 'fingerprint', 'status', 'location', 'body')
if not answer[1] then
  return { now }
end
return { now, answer[1], answer[2], answer[3], answer[4] }
