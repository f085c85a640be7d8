-- Makes a bucket cold, because claims may have been made elsewhere. Its claims stay and still
-- count.
--
-- $1 namespace, $2 bucket.
-- A row: the bucket had a marker, which is no history's any more. No row: it was cold.
UPDATE warm_markers SET history = 'marked cold' WHERE namespace = $1 AND bucket = $2
RETURNING bucket
