-- Loaded in front of claim.lua, read.lua and note-loss.lua: what they need to know of time and
-- warmth.
--
-- The warm marker of a bucket is a hash that vanishes together with the claims whenever the server
-- forgets. It never expires. Its fields:
--   epoch    names the time since the last loss; random
--   history  the server process that has remembered since then, and the stream of writes that it
--            was the origin of: 'run_id/master_replid'. The process alone is not enough: it
--            survives being demoted, overwritten by another server's data, and promoted again,
--            and the marker comes back with that data.
--   since    server time in milliseconds at which the epoch began
--   barrier  what the ledger must have passed; absent until it was read
--   warm     '1' when nothing had ever been accepted before the epoch

-- Asked once in a run, however many claims it makes: nothing of it changes while a script runs.
local now_ms, as_known

-- The server's clock in milliseconds: the only one that leases and lives are measured by, so that
-- no two gateways can disagree.
local function server_now()
  if not now_ms then
    local time = redis.call('TIME')
    now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
  end
  return now_ms
end

-- Whether what the caller knows of this server is true at this very moment: it is a primary, its
-- stream of writes is the one of `history`, and its clock shows about the time that the caller
-- counts on. A connection does not say so: a primary that is demoted keeps its clients and answers
-- reads, a proxy may lead to another server from one command to the next, and a clock that is set
-- ahead by a day ends every claim at once.
-- Judged once in a run: all its calls are one caller's, with the same `history` and `expected_ms`.
local clock_jump_ms = 60000
local function is_as_known(history, expected_ms, now)
  if as_known == nil then
    local replication = redis.call('INFO', 'replication')
    local writes = string.match(history, '[^/]*$')
    as_known = math.abs(now - expected_ms) <= clock_jump_ms
      and string.find(replication, 'role:master', 1, true) ~= nil
      and string.find(replication, 'master_replid:' .. writes, 1, true) ~= nil
  end
  return as_known
end

-- What the bucket's silence about an id is worth. Returns nil when an id without a record was
-- certainly not claimed within the life of a claim; else { 'cold', epoch, barrier }, each '' when
-- there is none. A marker of another history names no epoch: its time has ended. `server` is what
-- the caller knows of it: its history, and the time it should show.
local function coldness(marker_key, server, life_ms, now)
  local marker = redis.call('HMGET', marker_key, 'epoch', 'history', 'since', 'barrier', 'warm')
  if not marker[1] or marker[2] ~= server.history
    or not is_as_known(server.history, server.time, now) then
    return { 'cold', '', '' }
  end
  if marker[5] == '1' or marker[3] + life_ms <= now then
    return nil
  end
  return { 'cold', marker[1], marker[4] or '' }
end
