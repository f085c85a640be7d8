-- Behind one of the other files, which is here the function `step`: takes it once for each of
-- several calls that were sent together, one after the other, as if each had come alone.
--
-- KEYS     the keys of one call, then those of the next
-- ARGV[1]  how many keys a call has, ARGV[2] how many values of its own
-- ARGV[3]… the first values, which all calls share; then the own ones of each
--
-- Replies { { reply }, { false, message }, … }, in the order of the calls: what fails fails alone.
-- What it had written by then stays, as it would had it come alone: whoever called cannot know.

local keys_each, own_each = tonumber(ARGV[1]), tonumber(ARGV[2])
local calls = #KEYS / keys_each
local shared = #ARGV - 2 - calls * own_each
local replies = {}
local keys, values = {}, { unpack(ARGV, 3, 2 + shared) }
for call = 1, calls do
  for at = 1, keys_each do
    keys[at] = KEYS[(call - 1) * keys_each + at]
  end
  for at = 1, own_each do
    values[shared + at] = ARGV[2 + shared + (call - 1) * own_each + at]
  end
  local done, reply = pcall(step, keys, values)
  if done then
    replies[call] = { reply }
  else
    local message = type(reply) == 'table' and reply.err or tostring(reply)
    -- Of a replica, which wrote nothing of any call: the client leaves it for the new primary.
    if string.find(message, 'READONLY', 1, true) then
      return redis.error_reply(message)
    end
    replies[call] = { false, message }
  end
end
return replies
