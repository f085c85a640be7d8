-- Loaded in front of claim.lua, read.lua and note-loss.lua: what they need to know of time and
-- warmth.
--
-- The warm marker of a bucket is a hash that vanishes together with the claims whenever the server
-- forgets. It never expires. Its fields:
--   epoch    names the time since the last loss; random
--   run_id   the server process that has remembered since then
--   since    server time in milliseconds at which the epoch began
--   barrier  what the ledger must have passed; absent until it was read
--   warm     '1' when nothing had ever been accepted before the epoch

-- The server's clock in milliseconds: the only one that leases and lives are measured by, so that
-- no two gateways can disagree.
local function server_now()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

-- What the bucket's silence about an id is worth. Returns nil when an id without a record was
-- certainly not claimed within the life of a claim; else { 'cold', epoch, barrier }, each '' when
-- there is none. A marker of another run names no epoch: its time has ended.
local function coldness(marker_key, run_id, life_ms, now)
  local marker = redis.call('HMGET', marker_key, 'epoch', 'run_id', 'since', 'barrier', 'warm')
  if not marker[1] or marker[2] ~= run_id then
    return { 'cold', '', '' }
  end
  if marker[5] == '1' or marker[3] + life_ms <= now then
    return nil
  end
  return { 'cold', marker[1], marker[4] or '' }
end
