-- Slices of time that are closed (audit_slices), and how far they were looked at again.

-- name: lastSlice
-- The slice that was closed last, with what all closed ones come to. No row: none is closed.
SELECT nth::integer, counts, sums FROM auditor.audit_slices ORDER BY nth DESC LIMIT 1

-- name: openStretches
-- What neither a closed slice covers nor one of the windows from $1 until $2, oldest first: a row
-- for each stretch of time. The last has no end. With $3 none goes past the moment that was so many
-- seconds ago: it ends there, and has `rested`, or begins there.
SELECT lower(stretch)::text AS "from", upper(stretch)::text AS until, rested
FROM (SELECT coalesce(now() - $3::float8 * interval '1 second', '-infinity') AS moment) AS split
CROSS JOIN LATERAL (
  VALUES (tstzrange('-infinity', moment), true), (tstzrange(moment, 'infinity'), false)
) AS parts (part, rested)
CROSS JOIN LATERAL unnest(tstzmultirange(part) - (
  SELECT coalesce(range_agg(tstzrange(from_time, until_time)), '{}')
  FROM (
    SELECT from_time, until_time FROM auditor.audit_slices
    UNION ALL
    SELECT * FROM unnest($1::timestamptz[], $2::timestamptz[])
  ) AS covered (from_time, until_time)
)) AS stretch
ORDER BY lower(stretch)

-- name: stillOpen
-- Which of the windows from $1 until $2 no closed slice overlaps, by number from 1.
SELECT nth::integer
FROM unnest($1::timestamptz[], $2::timestamptz[]) WITH ORDINALITY AS known (since, until, nth)
WHERE NOT EXISTS (
  SELECT FROM auditor.audit_slices
  WHERE tstzrange(from_time, until_time) && tstzrange(since, until)
)
ORDER BY nth

-- name: closeSlice
-- Closes a slice behind the one that was closed last.
--
-- $1 the number of that one, 0 if there is none; $2 from, $3 until; $4 counts and $5 sums of all
-- closed slices with this one, as JSON. A row: it is closed. No row: another auditor was
-- faster.
INSERT INTO auditor.audit_slices (nth, from_time, until_time, counts, sums, hash)
SELECT $1::integer + 1, $2, $3, $4, $5, auditor.slice_hash(
  (SELECT hash FROM auditor.audit_slices WHERE nth = $1), $1::integer + 1, $2, $3, $4, $5
)
WHERE $1 = 0 OR EXISTS (SELECT FROM auditor.audit_slices WHERE nth = $1)
ON CONFLICT DO NOTHING
RETURNING nth

-- name: readSlice
-- A closed slice and what the closed ones came to before it.
--
-- $1 its number. `intact`: it says what it said when it was closed, and follows the one before it.
SELECT slice.nth::integer, slice.from_time::text AS "from", slice.until_time::text AS until,
       slice.counts, slice.sums, before.counts AS "countsBefore", before.sums AS "sumsBefore",
       slice.hash = auditor.slice_hash(
         before.hash, slice.nth, slice.from_time, slice.until_time, slice.counts, slice.sums
       ) AND (slice.nth = 1 OR before.nth IS NOT NULL) AS intact
FROM auditor.audit_slices AS slice
LEFT JOIN auditor.audit_slices AS before ON before.nth = slice.nth - 1
WHERE slice.nth = $1

-- name: listDoubted
-- Closed slices that were found otherwise than they were closed, by number.
SELECT nth FROM auditor.doubted_slices ORDER BY nth

-- name: doubtSlice
-- Remembers that a closed slice was found otherwise. $1 its number.
INSERT INTO auditor.doubted_slices (nth) VALUES ($1) ON CONFLICT DO NOTHING

-- name: trustSlice
-- Forgets that a closed slice was found otherwise: it is again what it was. $1 its number.
DELETE FROM auditor.doubted_slices WHERE nth = $1

-- name: beginFullAudit
-- Begins an audit of all closed slices, or takes up the one that was interrupted.
--
-- Always one row: the number of the slice that is next, and when that audit began.
UPDATE auditor.full_audit SET
  next_nth = CASE WHEN begun_at IS NULL THEN 1 ELSE next_nth END,
  begun_at = coalesce(begun_at, now())
RETURNING next_nth AS next, begun_at AS "begunAt"

-- name: passSlice
-- Says that the audit of all closed slices is past one. $1 its number.
UPDATE auditor.full_audit SET next_nth = greatest(next_nth, $1::integer + 1)

-- name: endFullAudit
-- Ends the audit of all closed slices: the next one begins at the first.
UPDATE auditor.full_audit SET next_nth = 1, begun_at = NULL
