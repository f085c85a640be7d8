-- Claims a transaction id for one request, or says who has it. One atomic step.
--
-- KEYS[1]  warm marker of the id's bucket (see warm-marker.lua)
-- KEYS[2]  claim record of the id; all keys have one hash tag, so that they live in one Redis
--          Cluster slot
-- KEYS[3]  what a read shows of it while the ledger has no row
-- KEYS[4]  what its partner holds in the bucket (see held.lua)
-- ARGV[1]  history of the server this connection leads to (see warm-marker.lua)
-- ARGV[2]  time that this server should show, milliseconds (see warm-marker.lua)
-- ARGV[3]  owner token, new for every request
-- ARGV[4]  fingerprint of the request
-- ARGV[5]  partner
-- ARGV[6]  kind of transaction
-- ARGV[7]  accepted-at, milliseconds
-- ARGV[8]  version of the answer's form
-- ARGV[9]  key of its record in the topic, or '' when that is the id
-- ARGV[10] what a read shows
-- ARGV[11] lease, ARGV[12] life of the record, ARGV[13] life of what a read shows, milliseconds
-- ARGV[14] epoch in which the ledger was asked and has no such id, or ''
-- ARGV[15] claims that a partner may hold in a bucket, ARGV[16] bytes to be shown of them
--
-- Replies: { 'claimed', accepted_at, version }    ours; both of the first claim
--          { 'completed', accepted_at, version }  done before; of these and of its own request the
--                                                 caller makes the same answer again
--          { 'reused' }                           another request has this id
--          { 'in-flight', lease_left_ms }         another owner is at work
--          { 'cold', epoch, barrier }             no record, which proves nothing; '' = none
--          { 'over-limit', retry_after_ms }       not claimed: its partner holds too much
-- Only 'claimed' writes. No record in a warm bucket means: never claimed, so it is ours.
-- A gateway that dies right after it leaves the record in flight: others get 'in-flight' until the
-- lease ends, and then the same request takes it over. Record and what is shown are written
-- together, so no crash leaves one of them alone; a takeover writes what is shown anew.
--
-- The record is a hash of some 200 bytes, kept for a day for every payment, so that the names of
-- its fields are one letter, as their values are short enough for Redis to keep it in one piece:
--   f fingerprint    s state: in-flight, released or completed    o owner token
--   l lease until    p partner    k kind    a accepted-at    v version    r key of its record
--
-- The order of the checks is the promise. The fingerprint comes first, so that a reused key is
-- told from a retry in every state of the record. A record that exists is right even while the
-- bucket is cold: it was written after the loss. The record's life begins anew with every claim and
-- with the completion, so nothing that is appended under a claim is forgotten within 24 hours.

local now = server_now()
local lease_until = now + ARGV[11]
local record = redis.call('HMGET', KEYS[2], 'f', 's', 'o', 'l', 'a', 'v')

if record[1] then
  if record[1] ~= ARGV[4] then
    return { 'reused' }
  end
  if record[2] == 'completed' then
    return { 'completed', record[5], record[6] }
  end
  -- The same token can only be the same request, sent again by a client that lost the reply.
  local mine = record[3] == ARGV[3]
  if record[2] == 'in-flight' and not mine and tonumber(record[4]) > now then
    return { 'in-flight', record[4] - now }
  end
  redis.call('HSET', KEYS[2], 's', 'in-flight', 'o', ARGV[3], 'l', lease_until)
  redis.call('PEXPIRE', KEYS[2], ARGV[12])
  -- A takeover is never refused: its request may be in the topic. Without room it shows nothing.
  local held = held_in(KEYS[4], now, ARGV[12], ARGV[13])
  if has_room(held, #ARGV[10], ARGV[16]) then
    hold(held, 0, #ARGV[10])
    redis.call('SET', KEYS[3], ARGV[10], 'PX', ARGV[13])
  end
  return { 'claimed', record[5], record[6] }
end

local cold = coldness(KEYS[1], { history = ARGV[1], time = ARGV[2] }, ARGV[12], now)
-- The ledger's answer holds only in the epoch it was asked in: after another loss a request may
-- have claimed, produced and been forgotten since.
if cold and (ARGV[14] == '' or cold[2] ~= ARGV[14]) then
  return cold
end

local held = held_in(KEYS[4], now, ARGV[12], ARGV[13])
if held.claims >= tonumber(ARGV[15]) then
  return { 'over-limit', until_room_ms(held) }
end
if not has_room(held, #ARGV[10], ARGV[16]) then
  return { 'over-limit', (held.window + 1) * ARGV[13] - now }
end

hold(held, 1, #ARGV[10])
redis.call('HSET', KEYS[2],
  'f', ARGV[4], 's', 'in-flight', 'o', ARGV[3], 'l', lease_until,
  'p', ARGV[5], 'k', ARGV[6], 'a', ARGV[7], 'v', ARGV[8])
if ARGV[9] ~= '' then
  redis.call('HSET', KEYS[2], 'r', ARGV[9])
end
redis.call('PEXPIRE', KEYS[2], ARGV[12])
redis.call('SET', KEYS[3], ARGV[10], 'PX', ARGV[13])
return { 'claimed', ARGV[7], ARGV[8] }
