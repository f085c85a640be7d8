-- Makes a bucket cold, because claims may have been made elsewhere. Its records stay and still
-- count.
--
-- KEYS[1]  warm marker of the bucket (see warm-marker.lua)
--
-- Replies 1 when the bucket had a marker, else 0.

return redis.call('DEL', KEYS[1])
