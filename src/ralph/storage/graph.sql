-- The graph over the index: everything here is derived from its rows, source by source, and can be deleted.
-- A node without an origin is only spoken of; it goes with the last edge that names it. An end of an edge that
-- came as words (an id or a title) is looked up anew whenever records come or go.

CREATE TABLE sources (
    key INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    stamp TEXT NOT NULL                 -- of what the index has read of it
);

CREATE TABLE nodes (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL,
    name TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '',     -- by which links may call it, folded
    recorded TEXT NOT NULL DEFAULT '',
    valid_from TEXT NOT NULL DEFAULT '',
    valid_until TEXT NOT NULL DEFAULT '',
    since TEXT NOT NULL DEFAULT '',
    replaced TEXT,                      -- since when it is superseded
    retired INTEGER NOT NULL DEFAULT 0,
    task TEXT NOT NULL DEFAULT '',      -- whose own it is
    origin INTEGER REFERENCES sources(key)
);

CREATE TABLE edges (
    source INTEGER REFERENCES nodes(key),
    target INTEGER REFERENCES nodes(key),
    relation TEXT NOT NULL,
    recorded TEXT NOT NULL,
    valid_from TEXT NOT NULL,
    valid_until TEXT NOT NULL,
    explicit INTEGER NOT NULL,
    source_words TEXT NOT NULL,
    target_words TEXT NOT NULL,
    origin INTEGER NOT NULL REFERENCES sources(key)
);

CREATE INDEX nodes_by_origin ON nodes(origin);
-- A walk reads thousands of edges: all that it asks for is in these two.
CREATE INDEX edges_by_source ON edges(source, target, relation, recorded, valid_from, valid_until, explicit);
CREATE INDEX edges_by_target ON edges(target, source, relation, recorded, valid_from, valid_until, explicit);
CREATE INDEX edges_by_origin ON edges(origin);
CREATE INDEX edges_by_words ON edges(target_words, source_words) WHERE target_words <> '' OR source_words <> '';
CREATE INDEX edges_by_relation ON edges(relation);
