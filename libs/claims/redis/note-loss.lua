-- Begins a new epoch of a bucket whose claims were lost. One atomic step.
--
-- KEYS[1]  warm marker of the bucket (see warm-marker.lua)
-- ARGV[1]  run_id of the server this connection leads to
-- ARGV[2]  a new epoch, random
--
-- Replies { epoch, barrier } as they hold now, barrier '' when there is none: the epoch that was
-- there when this server process wrote it, else the new one. No marker means that everything was
-- forgotten; a marker of another run that the server was restarted, restored or replaced, which
-- keeps old keys and may lose late ones.

local marker = redis.call('HMGET', KEYS[1], 'epoch', 'run_id', 'barrier')
if marker[1] and marker[2] == ARGV[1] then
  return { marker[1], marker[3] or '' }
end
-- The old marker goes whole: its barrier and its warmth are of an epoch that has ended.
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'epoch', ARGV[2], 'run_id', ARGV[1], 'since', server_now())
return { ARGV[2], '' }
