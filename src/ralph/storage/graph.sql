-- The graph over the index. Everything here is derived from the index's rows, source by source, and can be deleted.
-- A node without an origin is only mentioned; it is removed with the last edge that names it. An edge's end that was
-- given as words (an id or a title) is looked up again whenever records are added or removed. An edge whose ends are
-- not both known is not counted.

CREATE TABLE sources (
    key INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    stamp TEXT NOT NULL                 -- of the part that the index has read
);

CREATE TABLE nodes (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL,
    name TEXT NOT NULL,
    title TEXT NOT NULL DEFAULT '',     -- folded, for links that name it by title
    recorded TEXT NOT NULL DEFAULT '',
    valid_from TEXT NOT NULL DEFAULT '',
    valid_until TEXT NOT NULL DEFAULT '',
    since TEXT NOT NULL DEFAULT '',
    replaced TEXT,                      -- when it was superseded
    retired INTEGER NOT NULL DEFAULT 0,
    task TEXT NOT NULL DEFAULT '',      -- the task that it belongs to
    origin INTEGER REFERENCES sources(key),
    degree INTEGER NOT NULL DEFAULT 0,  -- how many edges it has, of which equal ones count once
    outgoing INTEGER NOT NULL DEFAULT 0, -- how many of them begin here
    first_edge TEXT NOT NULL DEFAULT '' -- the earliest time at which one that begins here was recorded
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
-- A picture shows the nodes with the most edges, but no session that is linked to nothing.
CREATE INDEX nodes_by_degree ON nodes(degree DESC, id) WHERE type <> 'session' OR degree > 0;
-- A walk reads thousands of edges; these two indexes cover everything that it reads.
CREATE INDEX edges_by_source ON edges(source, target, relation, recorded, valid_from, valid_until, explicit);
CREATE INDEX edges_by_target ON edges(target, source, relation, recorded, valid_from, valid_until, explicit);
CREATE INDEX edges_by_origin ON edges(origin);
CREATE INDEX edges_by_words ON edges(target_words, source_words) WHERE target_words <> '' OR source_words <> '';
CREATE INDEX edges_by_relation ON edges(relation);
