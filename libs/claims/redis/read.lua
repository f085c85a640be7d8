-- What a read shows of an id that the ledger does not know. Writes nothing.
--
-- KEYS[1]  warm marker of the id's bucket (see warm-marker.lua)
-- KEYS[2]  claim record of the id
-- ARGV[1]  history of the server this connection leads to (see warm-marker.lua)
-- ARGV[2]  life of a record in milliseconds
-- ARGV[3]  time that this server should show, milliseconds (see warm-marker.lua)
--
-- Replies: { 'pending', partner, shown, accepted_at }  claimed, in whatever state: a released
--                                                      claim's payment may well be in the topic
--          { 'unknown' }                               certainly not claimed
--          { 'cold', epoch, barrier }                  no record, which proves nothing; '' = none

local record = redis.call('HMGET', KEYS[2], 'partner', 'shown', 'accepted_at')
if record[1] then
  return { 'pending', record[1], record[2], record[3] }
end
local server = { history = ARGV[1], time = ARGV[3] }
return coldness(KEYS[1], server, ARGV[2], server_now()) or { 'unknown' }
