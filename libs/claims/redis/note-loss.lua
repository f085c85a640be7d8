-- Begins a new epoch of a bucket whose claims were lost. One atomic step.
--
-- KEYS[1]  warm marker of the bucket (see warm-marker.lua)
-- ARGV[1]  history of the server this connection leads to (see warm-marker.lua)
-- ARGV[2]  a new epoch, random
-- ARGV[3]  time that this server should show, milliseconds (see warm-marker.lua)
--
-- Replies { epoch, barrier } as they hold now, barrier '' when there is none: the epoch that was
-- there when it was written in this history, else the new one. No marker means that everything was
-- forgotten; a marker of another history that the server was restarted, restored, replaced, or a
-- replica meanwhile, which keeps old keys and may lose late ones. An error, and nothing written,
-- when this is not the server that the caller knows.

if not is_as_known(ARGV[1], ARGV[3], server_now()) then
  return redis.error_reply('this is not the server that was inspected')
end
local marker = redis.call('HMGET', KEYS[1], 'epoch', 'history', 'barrier')
if marker[1] and marker[2] == ARGV[1] then
  return { marker[1], marker[3] or '' }
end
-- The old marker goes whole: its barrier and its warmth are of an epoch that has ended.
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'epoch', ARGV[2], 'history', ARGV[1], 'since', server_now())
return { ARGV[2], '' }
