-- What a shop has to sell: enough of one article, and none of the other.

CREATE TABLE stock (
  article text PRIMARY KEY,
  pieces integer NOT NULL CHECK (pieces >= 0)
);

INSERT INTO stock VALUES ('book', 1000000), ('rare-book', 0);
