-- What operators did by pages and by the API, and what was done to operators.

-- name: beginAct
-- Records that an act begins, unless the same form or request began one before.
--
-- $1 id of the form, $2 act, $3 target, $4 who, $5 their role, $6 why. A row: the new act. No row:
-- it was begun before, which findByForm finds; of two at once one has a row.
INSERT INTO console.acts (form, act, target, done_by, role, why) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (form) DO NOTHING
RETURNING act_id AS id

-- name: finishAct
-- $1 id, $2 outcome, $3 what came of it. No row, ever. An act that is finished is refused.
UPDATE console.acts SET outcome = $2, detail = $3, finished_at = now() WHERE act_id = $1

-- name: findByForm
-- $1 id of a form, $2 act, $3 target, $4 who. A row: the act that it began, and whether that is
-- this act on this target by the same. No row: none.
SELECT act_id AS id, (act, target, done_by) = ($2::text, $3::text, $4::text) AS "isSame"
FROM console.acts WHERE form = $1

-- name: listActs
-- $1 an act before which to begin or null, $2 the target or null, $3 who or null, $4 the kind of
-- act or null, $5 how many at most. A row: an act, newest first.
SELECT act_id AS id, act, target, done_by AS by, role, why, begun_at AS "begunAt", outcome, detail,
       finished_at AS "finishedAt"
FROM console.acts
WHERE act_id < coalesce($1::bigint, 9223372036854775807)
  AND ($2::text IS NULL OR target = $2) AND ($3::text IS NULL OR done_by = $3)
  AND ($4::text IS NULL OR act = $4)
ORDER BY act_id DESC
LIMIT $5
