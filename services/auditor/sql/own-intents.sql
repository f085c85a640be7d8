-- Which of some intents are ours.
--
-- $1 their ids.
-- A row: the id of one that is in the book.
SELECT id FROM auditor.intents WHERE id = ANY($1::text[])
