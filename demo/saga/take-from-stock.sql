-- Takes one piece of an article out of the stock.
--
-- $1 article.
-- A row: there was one. No row: there is none.
UPDATE stock SET pieces = pieces - 1 WHERE article = $1 AND pieces > 0 RETURNING article
