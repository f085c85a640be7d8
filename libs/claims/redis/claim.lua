-- Claims a transaction id for one request, or says who has it. One atomic step.
--
-- KEYS[1]  warm marker of the id's bucket (see warm-marker.lua)
-- KEYS[2]  claim record of the id; same hash tag, so that both live in one Redis Cluster slot
-- ARGV[1]  history of the server this connection leads to (see warm-marker.lua)
-- ARGV[2]  owner token, new for every request
-- ARGV[3]  fingerprint of the request
-- ARGV[4]  partner
-- ARGV[5]  accepted-at, milliseconds
-- ARGV[6]  what a read shows while the payment is pending
-- ARGV[7]  lease in milliseconds
-- ARGV[8]  life of the record in milliseconds
-- ARGV[9]  epoch in which the ledger was asked and has no such id, or ''
-- ARGV[10] time that this server should show, milliseconds (see warm-marker.lua)
--
-- Replies: { 'claimed', accepted_at }               ours; accepted_at of the first claim
--          { 'completed', status, location, body }  done before, the stored answer
--          { 'reused' }                             another request has this id
--          { 'in-flight', lease_left_ms }           another owner is at work
--          { 'cold', epoch, barrier }               no record, which proves nothing; '' = none
-- Only 'claimed' writes. No record in a warm bucket means: never claimed, so it is ours.
-- A gateway that dies right after it leaves the record in flight: others get 'in-flight' until the
-- lease ends, and then the same request takes it over.
--
-- The order of the checks is the promise. The fingerprint comes first, so that a reused key is
-- told from a retry in every state of the record. A record that exists is right even while the
-- bucket is cold: it was written after the loss. The record's life begins anew with every claim and
-- with the completion, so nothing that is appended under a claim is forgotten within 24 hours.

local now = server_now()
local lease_until = now + ARGV[7]
local record = redis.call('HMGET', KEYS[2], 'fingerprint', 'state', 'owner', 'lease_until', 'accepted_at')

if record[1] then
  if record[1] ~= ARGV[3] then
    return { 'reused' }
  end
  if record[2] == 'completed' then
    local answer = redis.call('HMGET', KEYS[2], 'status', 'location', 'body')
    return { 'completed', answer[1], answer[2], answer[3] }
  end
  -- The same token can only be the same request, sent again by a client that lost the reply.
  local mine = record[3] == ARGV[2]
  if record[2] == 'in-flight' and not mine and tonumber(record[4]) > now then
    return { 'in-flight', record[4] - now }
  end
  redis.call('HSET', KEYS[2], 'state', 'in-flight', 'owner', ARGV[2], 'lease_until', lease_until)
  redis.call('PEXPIRE', KEYS[2], ARGV[8])
  return { 'claimed', record[5] }
end

local cold = coldness(KEYS[1], { history = ARGV[1], time = ARGV[10] }, ARGV[8], now)
-- The ledger's answer holds only in the epoch it was asked in: after another loss a request may
-- have claimed, produced and been forgotten since.
if cold and (ARGV[9] == '' or cold[2] ~= ARGV[9]) then
  return cold
end

redis.call('HSET', KEYS[2],
  'fingerprint', ARGV[3], 'state', 'in-flight', 'owner', ARGV[2], 'lease_until', lease_until,
  'partner', ARGV[4], 'accepted_at', ARGV[5], 'shown', ARGV[6])
redis.call('PEXPIRE', KEYS[2], ARGV[8])
return { 'claimed', ARGV[5] }
