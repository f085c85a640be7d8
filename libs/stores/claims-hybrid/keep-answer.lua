-- Keeps an answer that never changes. One atomic step.
--
-- KEYS[1]  where it is kept
-- ARGV[1]  when it expires, milliseconds by this server's clock
-- ARGV[2]  fingerprint
-- ARGV[3]  answer
--
-- Replies 1. The expiry is a moment and not a span, so an answer that arrives late, at a server
-- that stood still, does not outlive what it answers; one that arrives after its expiry is gone at
-- once.

redis.call('HSET', KEYS[1], 'fingerprint', ARGV[2], 'answer', ARGV[3])
redis.call('PEXPIREAT', KEYS[1], ARGV[1])
return 1
