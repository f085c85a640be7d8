-- Claims a transaction id for one request, or says who has it. One atomic step.
--
-- KEYS[1]  warm marker of the id's bucket (see warm-marker.lua)
-- KEYS[2]  claim record of the id; all keys have one hash tag, so that they live in one Redis
--          Cluster slot
-- KEYS[3]  what a read shows of it while the ledger has no row
-- KEYS[4]  what its partner holds in the bucket (see held.lua)
-- ARGV[1]  history of the server this connection leads to (see warm-marker.lua)
-- ARGV[2]  time that this server should show, milliseconds (see warm-marker.lua)
-- ARGV[3]  lease, ARGV[4] life of the record, ARGV[5] life of what a read shows, milliseconds
-- ARGV[6]  claims that a partner may hold in a bucket, ARGV[7] bytes to be shown of them
-- ARGV[8]  owner token, new for every request
-- ARGV[9]  fingerprint of the request
-- ARGV[10] partner
-- ARGV[11] kind of transaction
-- ARGV[12] accepted-at, milliseconds
-- ARGV[13] version of the answer's form
-- ARGV[14] key of its record in the topic, or '' when that is the id
-- ARGV[15] what a read shows
-- ARGV[16] epoch in which the ledger was asked and has no such id, or ''
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
local lease_until = now + ARGV[3]
local record = redis.call('HMGET', KEYS[2], 'f', 's', 'o', 'l', 'a', 'v')

if record[1] then
  if record[1] ~= ARGV[9] then
    return { 'reused' }
  end
  if record[2] == 'completed' then
    return { 'completed', record[5], record[6] }
  end
  -- The same token can only be the same request, sent again by a client that lost the reply.
  local mine = record[3] == ARGV[8]
  if record[2] == 'in-flight' and not mine and tonumber(record[4]) > now then
    return { 'in-flight', record[4] - now }
  end
  redis.call('HSET', KEYS[2], 's', 'in-flight', 'o', ARGV[8], 'l', lease_until)
  redis.call('PEXPIRE', KEYS[2], ARGV[4])
  -- A takeover is never refused: its request may be in the topic. Without room it shows nothing.
  local held = held_in(KEYS[4], now, ARGV[4], ARGV[5])
  if has_room(held, #ARGV[15], ARGV[7]) then
    hold(held, 0, #ARGV[15])
    redis.call('SET', KEYS[3], ARGV[15], 'PX', ARGV[5])
  end
  return { 'claimed', record[5], record[6] }
end

local cold = coldness(KEYS[1], { history = ARGV[1], time = ARGV[2] }, ARGV[4], now)
-- The ledger's answer holds only in the epoch it was asked in: after another loss a request may
-- have claimed, produced and been forgotten since.
if cold and (ARGV[16] == '' or cold[2] ~= ARGV[16]) then
  return cold
end

local held = held_in(KEYS[4], now, ARGV[4], ARGV[5])
if held.claims >= tonumber(ARGV[6]) then
  return { 'over-limit', until_room_ms(held) }
end
if not has_room(held, #ARGV[15], ARGV[7]) then
  return { 'over-limit', (held.window + 1) * ARGV[5] - now }
end

hold(held, 1, #ARGV[15])
redis.call('HSET', KEYS[2],
  'f', ARGV[9], 's', 'in-flight', 'o', ARGV[8], 'l', lease_until,
  'p', ARGV[10], 'k', ARGV[11], 'a', ARGV[12], 'v', ARGV[13])
if ARGV[14] ~= '' then
  redis.call('HSET', KEYS[2], 'r', ARGV[14])
end
redis.call('PEXPIRE', KEYS[2], ARGV[4])
redis.call('SET', KEYS[3], ARGV[15], 'PX', ARGV[5])
return { 'claimed', ARGV[12], ARGV[13] }
