-- Vectors of embedded texts by model and content digest; no text.
CREATE TABLE vectors (
    model TEXT NOT NULL, digest TEXT NOT NULL, vector BLOB NOT NULL, PRIMARY KEY (model, digest)
) WITHOUT ROWID
