-- What a read shows of an id that the ledger does not know. Writes nothing.
--
-- KEYS[1]  warm marker of the id's bucket (see warm-marker.lua)
-- KEYS[2]  claim record of the id (its fields are named in claim.lua)
-- KEYS[3]  what a read shows of it
-- ARGV[1]  history of the server this connection leads to (see warm-marker.lua)
-- ARGV[2]  time that this server should show, milliseconds (see warm-marker.lua)
-- ARGV[3]  life of a record in milliseconds
--
-- Replies: { 'pending', partner, kind, accepted_at, lease_left_ms, shown }  claimed, in whatever
--                                                      state: a released claim's payment may well
--                                                      be in the topic. '' = completed; no shown:
--                                                      its time was over
--          { 'unknown' }                               certainly not claimed
--          { 'cold', epoch, barrier }                  no record, which proves nothing; '' = none

local record = redis.call('HMGET', KEYS[2], 'p', 'k', 'a', 'l', 's')
if record[1] then
  local left = record[5] ~= 'completed' and record[4] - server_now() or ''
  return { 'pending', record[1], record[2], record[3], left, redis.call('GET', KEYS[3]) or nil }
end
local server = { history = ARGV[1], time = ARGV[2] }
return coldness(KEYS[1], server, ARGV[3], server_now()) or { 'unknown' }
