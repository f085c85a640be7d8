-- The newest redrive of each subject.
--
-- $1 ids of dead letters. A row: one that was redriven. No row: it never was.
SELECT DISTINCT ON (subject) subject AS id, done_by AS by, done_at AS at, why
FROM auditor.operator_acts
WHERE act = 'redrive' AND subject = ANY ($1::text[])
ORDER BY subject, act_id DESC
