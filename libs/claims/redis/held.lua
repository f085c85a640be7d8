-- Loaded in front of claim.lua, and what renews what a read shows: what one partner holds in one
-- bucket, so that it fills nobody else's memory. A partner's ids are hashes, so a bucket has its
-- share of them, and no script has to look into another slot of a Redis Cluster.
--
-- A hash for each partner and bucket, which leaves with the last of what it counts. Its fields:
--   hour     the newest hour in which a claim began
--   claims   how many claims may live
--   <hour>   how many of them began in that hour: they leave the count together
--   window   the newest stretch of time, as long as the life of what a read shows
--   shown    bytes written in it to be shown, and before: in the one before it
-- What is counted is what may live, up to an hour or a window longer than it does. A claim that is
-- taken over lives on uncounted: it was refused or unknown before, which is rare.

local hour_ms = 3600000

-- What is held now. Forgets hours that are over, and writes nothing else.
local function held_in(key, now, life_ms, shown_ms)
  local hour = math.floor(now / hour_ms)
  local window = math.floor(now / shown_ms)
  local kept = redis.call('HMGET', key, 'hour', 'claims', hour, 'window', 'shown', 'before')
  local held = {
    key = key, now = now, life_ms = tonumber(life_ms), hour = hour, window = window,
    claims = tonumber(kept[2] or 0), in_hour = tonumber(kept[3] or 0), shown = 0, before = 0,
  }
  local windows_ago = window - tonumber(kept[4] or 0)
  if windows_ago == 0 then
    held.shown, held.before = tonumber(kept[5]), tonumber(kept[6])
  elseif windows_ago == 1 then
    held.before = tonumber(kept[5])
  end
  local is_same_hour = tonumber(kept[1] or 0) == hour
  held.goes_on = is_same_hour and windows_ago == 0
  if kept[1] and not is_same_hour then
    local counts = redis.call('HGETALL', key)
    for at = 1, #counts, 2 do
      local began = tonumber(counts[at])
      if began and (began + 1) * hour_ms + held.life_ms <= now then
        held.claims = held.claims - counts[at + 1]
        redis.call('HDEL', key, counts[at])
      end
    end
  end
  return held
end

-- Counts claims that begin, and bytes that are written to be shown. Writes what changes: a number
-- that goes through Lua costs as much as half a command. The key's end is put off with each window,
-- and so lies behind the end of every hour that it counts.
local function hold(held, claims, bytes)
  held.claims, held.in_hour = held.claims + claims, held.in_hour + claims
  held.shown = held.shown + bytes
  if held.goes_on then
    redis.call('HSET', held.key, 'claims', held.claims, held.hour, held.in_hour, 'shown', held.shown)
    return
  end
  redis.call('HSET', held.key,
    'hour', held.hour, 'claims', held.claims, held.hour, held.in_hour,
    'window', held.window, 'shown', held.shown, 'before', held.before)
  redis.call('PEXPIRE', held.key, held.life_ms + hour_ms)
end

local function has_room(held, bytes, bytes_max)
  return held.shown + held.before + bytes <= tonumber(bytes_max)
end

-- How long until there is room for another claim: when the oldest hour leaves the count.
local function until_room_ms(held)
  local oldest = held.hour
  for _, field in ipairs(redis.call('HKEYS', held.key)) do
    oldest = math.min(oldest, tonumber(field) or oldest)
  end
  return (oldest + 1) * hour_ms + held.life_ms - held.now
end

-- Has what a read shows begin its life anew: 1, or 0 when it is over or may not.
-- keys[1] it, keys[2] what its partner holds; values: life of claims, life of what is shown, and
-- how many bytes may be shown of the partner's. New claims have half of them for themselves, so
-- that a ledger that is behind for long stops no payment. What is young is left as it is: 1.
local function renew(keys, values, now)
  local bytes = redis.call('STRLEN', keys[1])
  if bytes == 0 then
    return 0
  end
  if redis.call('PTTL', keys[1]) > values[2] / 2 then
    return 1
  end
  local held = held_in(keys[2], now, values[1], values[2])
  if not has_room(held, bytes, values[3] / 2) then
    return 0
  end
  hold(held, 0, bytes)
  redis.call('PEXPIRE', keys[1], values[2])
  return 1
end
