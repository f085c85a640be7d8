-- Keeps the answer of a completed claim. One atomic step.
--
-- KEYS[1]  answer of the id
-- ARGV[1]  when it expires, milliseconds by this server's clock
-- ARGV[2]  fingerprint, ARGV[3] status, ARGV[4] location, ARGV[5] body
--
-- Replies 1. The expiry is a moment and not a span, so an answer that arrives late, at a server that
-- stood still, does not outlive the claim; one that arrives after its expiry is gone at once.

redis.call('HSET', KEYS[1],
  'fingerprint', ARGV[2], 'status', ARGV[3], 'location', ARGV[4], 'body', ARGV[5])
redis.call('PEXPIREAT', KEYS[1], ARGV[1])
return 1
