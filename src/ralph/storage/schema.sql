-- The index over the files. Everything here is derived: if you delete the database, the next command
-- rebuilds it. Records of all families share one key space (key % 3 identifies the family), so that
-- one full-text index covers them all and their scores are comparable. The full-text index keeps no
-- copy of the text: terms to delete are computed again from the row. Every family has the columns
-- `title`, `tags` and `files`, so that ranking decodes nothing; `metadata` contains only what has no
-- column, and is empty for most rows. `tags`, `files` and `files_modified` are
-- JSON arrays.

CREATE TABLE sources (
    key INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,      -- relative to the project's root
    format TEXT NOT NULL,
    mtime_ns INTEGER NOT NULL,
    size INTEGER NOT NULL,
    inode INTEGER NOT NULL,
    digest TEXT NOT NULL,           -- of the part that was read
    offset INTEGER NOT NULL,        -- bytes of a log that were read
    lines INTEGER NOT NULL,         -- lines of a log that were read
    in_own_turn INTEGER NOT NULL DEFAULT 0, -- whether the log ended in a turn that only called Ralph
    problems INTEGER NOT NULL DEFAULT 0,    -- in its lines, as `ralph doctor` reports them
    events INTEGER NOT NULL DEFAULT 0,      -- lines of a log that hooks wrote
    hosts TEXT NOT NULL DEFAULT ''          -- the agents of these lines, separated by spaces
);

CREATE TABLE records (              -- memories: key % 3 = 0
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,               -- not unique: a file may have two entries with the same id
    source INTEGER NOT NULL REFERENCES sources(key),
    line INTEGER NOT NULL,
    kind TEXT NOT NULL,
    title TEXT NOT NULL,
    text TEXT NOT NULL,
    tags TEXT NOT NULL,
    files TEXT NOT NULL,
    status TEXT NOT NULL,
    scope TEXT NOT NULL,            -- '' means the default of the family
    created_at TEXT NOT NULL,       -- when it was added, to the microsecond if its entry has that
    dated TEXT NOT NULL,            -- the date as written in its file
    metadata TEXT NOT NULL,         -- a JSON object, or ''
    digest BLOB NOT NULL,           -- of title and text
    fingerprint BLOB NOT NULL       -- of the entry in its file, or empty if a log defines it
);

CREATE TABLE session_rows (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    source INTEGER NOT NULL REFERENCES sources(key),
    project_path TEXT NOT NULL DEFAULT '',
    task_id TEXT,
    session_id TEXT,                -- the host's own id
    mode TEXT NOT NULL DEFAULT 'agent' CHECK (mode IN ('plan', 'agent')),
    started_at TEXT,
    ended_at TEXT,
    reason TEXT,                    -- why it ended
    host TEXT,
    branch TEXT,                    -- that was checked out when it started or last stopped
    summary TEXT,
    tags TEXT NOT NULL DEFAULT '[]',
    created_at TEXT,
    updated_at TEXT
);

CREATE TABLE observations (         -- key % 3 = 1
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    source INTEGER NOT NULL REFERENCES sources(key),
    line INTEGER NOT NULL,
    session_id TEXT NOT NULL,
    seq INTEGER NOT NULL,           -- its position in the session
    type TEXT NOT NULL CHECK (type IN ('tool_use', 'error', 'success', 'note')),
    title TEXT NOT NULL,
    content TEXT NOT NULL,
    tags TEXT NOT NULL,
    files TEXT NOT NULL,
    scope TEXT NOT NULL,
    metadata TEXT NOT NULL,
    created_at TEXT NOT NULL,
    digest BLOB NOT NULL,
    judged_by INTEGER NOT NULL,     -- the version of the classifier that has judged it, or 0
    is_order INTEGER NOT NULL       -- whether it reads like an instruction, if it was judged
);

CREATE TABLE long_messages (        -- prompts and answers that their observations shorten, in full
    id TEXT PRIMARY KEY,            -- of the observation
    source INTEGER NOT NULL REFERENCES sources(key),
    text TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE loop_runs (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    source INTEGER NOT NULL REFERENCES sources(key),
    session_id TEXT,
    goal TEXT NOT NULL DEFAULT '',
    iterations INTEGER NOT NULL DEFAULT 0,
    status TEXT NOT NULL DEFAULT 'running' CHECK (
        status IN ('running', 'success', 'unchecked', 'failed', 'stopped')
    ),
    reason TEXT,
    context_snapshots TEXT,         -- a JSON array of prompt files, relative to the state folder
    started_at TEXT,
    ended_at TEXT
);

CREATE TABLE journal_rows (         -- id % 3 = 2; iterations, summaries of runs, blocks of progress.txt
    id INTEGER PRIMARY KEY,
    record_id TEXT NOT NULL,
    source INTEGER NOT NULL REFERENCES sources(key),
    line INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    iteration INTEGER,
    task_id TEXT,
    feature_id TEXT,
    outcome TEXT NOT NULL CHECK (outcome IN ('done', 'failed', 'retried', 'blocked', 'interrupted')),
    model TEXT,
    duration_secs REAL,
    cost_usd REAL NOT NULL DEFAULT 0.0,
    files_modified TEXT NOT NULL,
    title TEXT NOT NULL,
    notes TEXT NOT NULL,
    tags TEXT NOT NULL,
    scope TEXT NOT NULL,
    created_at TEXT NOT NULL,
    metadata TEXT NOT NULL,
    digest BLOB NOT NULL,
    fingerprint BLOB NOT NULL       -- as in `records`
);

CREATE TABLE tasks (
    key INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    source INTEGER NOT NULL REFERENCES sources(key),
    title TEXT NOT NULL,
    description TEXT NOT NULL,
    status TEXT NOT NULL,
    priority INTEGER NOT NULL,
    blocked_by TEXT NOT NULL,
    parent TEXT,
    feature TEXT,
    attempts INTEGER NOT NULL,
    worktree TEXT,
    branch TEXT,
    created_at TEXT,
    updated_at TEXT
);

-- Precomputed totals, so that a page of a large project does not have to count rows.
CREATE TABLE facets (
    family TEXT NOT NULL, kind TEXT NOT NULL, tags TEXT NOT NULL, status TEXT NOT NULL, day TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (family, kind, tags, status, day)
) WITHOUT ROWID;

CREATE TABLE session_list (         -- every session named by a session line or an observation
    id TEXT PRIMARY KEY,
    started_at TEXT NOT NULL DEFAULT '',
    first TEXT NOT NULL DEFAULT '',     -- time of an observation
    last TEXT NOT NULL DEFAULT '',
    observations INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

CREATE INDEX sessions_by_host_id ON session_rows(session_id);
CREATE INDEX session_list_by_time ON session_list(started_at, id);
CREATE INDEX records_by_id ON records(id);
CREATE INDEX observations_by_id ON observations(id);
CREATE INDEX journal_by_id ON journal_rows(record_id);
CREATE INDEX records_by_time ON records(created_at, source);
CREATE INDEX journal_by_time ON journal_rows(created_at, source);
CREATE INDEX records_by_source ON records(source);
-- Few records supersede another one, and a hook has no time to scan all of them.
CREATE INDEX records_superseding ON records(id) WHERE instr(metadata, '"supersede') > 0;
-- Few records wait for a person, and a hook asks whether any do.
CREATE INDEX records_unconfirmed ON records(id) WHERE instr(metadata, '"unconfirmed":') > 0;
CREATE INDEX observations_by_source ON observations(source);
CREATE INDEX observations_by_session ON observations(session_id, seq);
CREATE INDEX observations_by_time ON observations(created_at, source);
-- Few observations are not judged yet, because hooks judge the new ones.
CREATE INDEX observations_unjudged ON observations(judged_by) WHERE judged_by = 0;
CREATE INDEX long_messages_by_source ON long_messages(source);
CREATE INDEX journal_by_source ON journal_rows(source);
CREATE INDEX journal_by_run ON journal_rows(run_id, iteration);

CREATE VIRTUAL TABLE search USING fts5(
    text, title, tags, files,          -- the largest column first: the index is a tenth smaller
    content = '', tokenize = 'ascii'   -- terms are already folded and separated by spaces
);
CREATE VIRTUAL TABLE search_terms USING fts5vocab(search, 'row');

-- For people who use sqlite3. Ralph itself reads only the tables above and `search`.
CREATE VIEW sessions AS SELECT
    key, id, source, project_path, task_id, session_id, mode, started_at, ended_at, reason, host, summary, tags,
    (
        SELECT json_group_array(json_object(
            'role', iif(title = 'prompt', 'user', 'assistant'), 'id', id, 'text', coalesce((
                SELECT text FROM long_messages WHERE long_messages.id = message.id
            ), content)))
        FROM (
            SELECT id, title, content FROM observations
            WHERE session_id = session_rows.id AND type = 'note' AND title IN ('prompt', 'answer')
            ORDER BY seq
        ) AS message
    ) AS messages,                  -- a JSON array of objects: role, id, text
    created_at, updated_at
FROM session_rows;

CREATE VIEW journal AS SELECT
    id, record_id, source, line, run_id, iteration, task_id, feature_id, outcome, model, duration_secs, cost_usd,
    files_modified, title, notes, tags, scope, created_at, metadata
FROM journal_rows WHERE run_id <> '' AND iteration IS NOT NULL;

CREATE VIRTUAL TABLE observations_fts USING fts5(
    content, content = 'observations', content_rowid = 'key', columnsize = 0
);
CREATE VIRTUAL TABLE journal_fts USING fts5(notes, content = 'journal', content_rowid = 'id', columnsize = 0);
