-- What a team shares. Only the owner has rights on tables. Members call the functions below, which run with the owner's
-- rights, look up what the caller may see by `session_user`, and have a fixed search path.

CREATE SCHEMA ralph_team;
REVOKE ALL ON SCHEMA ralph_team FROM PUBLIC;
GRANT USAGE ON SCHEMA ralph_team TO PUBLIC;
SET LOCAL search_path = ralph_team, pg_temp;

CREATE TABLE version (number integer NOT NULL);
INSERT INTO version VALUES (1);

CREATE TABLE projects (
    id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE CHECK (name <> ''),
    records bigint NOT NULL DEFAULT 0,
    tokens bigint NOT NULL DEFAULT 0        -- of all records, for the average length
);

CREATE TABLE members (
    role name NOT NULL,
    project integer NOT NULL REFERENCES projects,
    may_write boolean NOT NULL DEFAULT true,
    PRIMARY KEY (role, project)
);

CREATE TABLE machines (                     -- each belongs to the member who used it first
    project integer NOT NULL REFERENCES projects,
    machine text NOT NULL,
    member name NOT NULL DEFAULT session_user,
    PRIMARY KEY (project, machine)
);

CREATE TABLE sources (                      -- a file of one machine
    key bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    project integer NOT NULL REFERENCES projects,
    member name NOT NULL,
    machine text NOT NULL,
    path text NOT NULL,
    format text NOT NULL,
    rules text NOT NULL,                    -- digest of the privacy settings that were applied
    digest text NOT NULL,                   -- of the part of the file that was read
    size bigint NOT NULL,
    lines integer NOT NULL,
    branch text NOT NULL,
    commit text NOT NULL,
    committed_at text NOT NULL,
    is_default boolean NOT NULL,            -- whether the branch is the repository's default branch
    generation uuid NOT NULL DEFAULT gen_random_uuid(),     -- changes whenever a row is removed
    records integer NOT NULL DEFAULT 0,
    last bigint NOT NULL DEFAULT 0,         -- the highest key of its rows
    pushed_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (project, machine, path)
);

CREATE SEQUENCE row_keys;

CREATE TABLE records (
    key bigint NOT NULL DEFAULT nextval('row_keys'),
    source bigint NOT NULL,
    project integer NOT NULL,
    length integer NOT NULL,                -- terms of all columns
    seq integer NOT NULL,                   -- position in the session
    family smallint NOT NULL,               -- 0 memory, 1 observation, 2 journal
    id text NOT NULL,
    session text NOT NULL,
    body text NOT NULL,                     -- a line of the log format
    columns text NOT NULL,                  -- terms of text, title, tags and files, one line each, two spaces between terms
    terms text[] NOT NULL                   -- project, '/', level of the term's weight in this row (0 to f), term
) PARTITION BY LIST (project);
CREATE TABLE records_rest PARTITION OF records DEFAULT;
-- The project comes last: without statistics, the planner would use it to read all rows of a project.
CREATE UNIQUE INDEX records_key ON records (key, project);
CREATE INDEX records_source ON records (source, key);
CREATE INDEX records_id ON records (id, project);
CREATE INDEX records_session ON records (session, seq, project) WHERE family = 1;
CREATE INDEX records_terms ON records USING gin (terms) WITH (fastupdate = off);

CREATE TABLE sessions (
    key bigint PRIMARY KEY DEFAULT nextval('row_keys'),
    source bigint NOT NULL,
    project integer NOT NULL,
    id text NOT NULL,
    body text NOT NULL
);
CREATE INDEX sessions_source ON sessions (source, key);
CREATE INDEX sessions_id ON sessions (id, project);

CREATE TABLE tombstones (
    project integer NOT NULL REFERENCES projects,
    id text NOT NULL,
    member name NOT NULL DEFAULT session_user,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (project, id)
);

CREATE TABLE vocabulary (
    project integer NOT NULL,
    docs integer NOT NULL,
    term text COLLATE "C" NOT NULL,
    PRIMARY KEY (project, term)
) WITH (fillfactor = 80);

-- Always look up the name among the caller's own projects, whatever the planner prefers: other reads would reveal which
-- names exist.
CREATE FUNCTION member_of(p_project text, p_write boolean) RETURNS integer
LANGUAGE plpgsql SET enable_seqscan = off AS $$
DECLARE number integer;
BEGIN
    SELECT m.project INTO number
    FROM (SELECT project, may_write FROM members WHERE role = session_user OFFSET 0) m,
        LATERAL (SELECT name FROM projects WHERE id = m.project OFFSET 0) p
    WHERE p.name = p_project AND (m.may_write OR NOT p_write);
    IF number IS NULL THEN
        RAISE insufficient_privilege USING MESSAGE =
            format('%s may not %s this project', session_user, CASE WHEN p_write THEN 'write to' ELSE 'read' END);
    END IF;
    IF p_write THEN  -- one push to a project at a time
        PERFORM FROM projects WHERE id = number FOR UPDATE;
    END IF;
    RETURN number;
END $$;

CREATE FUNCTION drop_rows(p_project integer, p_keys bigint[]) RETURNS void LANGUAGE sql AS $$
    WITH gone AS (
        DELETE FROM records WHERE project = p_project AND key = ANY (p_keys) RETURNING source, length, terms
    ), words AS (
        SELECT substr(e, strpos(e, '/') + 2) AS term, count(*)::integer AS docs FROM gone, unnest(terms) e GROUP BY 1
    ), none AS (
        DELETE FROM vocabulary v USING words w WHERE v.project = p_project AND v.term = w.term AND v.docs <= w.docs
    ), fewer AS (
        UPDATE vocabulary v SET docs = v.docs - w.docs FROM words w
        WHERE v.project = p_project AND v.term = w.term AND v.docs > w.docs
    ), changed AS (
        UPDATE sources s SET generation = gen_random_uuid(), records = s.records - g.number
        FROM (SELECT source, count(*)::integer AS number FROM gone GROUP BY 1) g WHERE s.key = g.source
    )
    UPDATE projects p SET records = p.records - g.number, tokens = p.tokens - g.tokens
    FROM (SELECT count(*) AS number, coalesce(sum(length), 0) AS tokens FROM gone) g WHERE p.id = p_project;
$$;

-- Whether a client can have created this row; `columns` has one line each for text, title, tags and files.
CREATE FUNCTION is_row(
    family smallint, id text, session text, seq integer, body text, columns text, terms text, length integer
) RETURNS boolean LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(family BETWEEN 0 AND 3 AND length BETWEEN 0 AND 1000000 AND seq BETWEEN 0 AND 1000000000
        AND octet_length(id) BETWEEN 1 AND 1000 AND octet_length(session) <= 1000
        AND octet_length(body) <= 1048576 AND octet_length(columns) <= 2097152 AND octet_length(terms) <= 2097152
        AND strpos(body, E'\n') = 0 AND terms !~ '(^| )[^0-9a-f]'
        AND (family = 3 OR octet_length(columns) - octet_length(replace(columns, E'\n', '')) = 3)
        AND (body::json -> 'id') #>> '{}' = id
        AND (body::json -> 'type') #>> '{}' = (ARRAY['memory', 'observation', 'journal', 'session'])[family + 1], false);
$$;

CREATE FUNCTION push(
    p_project text, p_machine text, p_path text, p_format text, p_rules text, p_digest text, p_size bigint,
    p_lines integer, p_branch text, p_commit text, p_committed_at text, p_is_default boolean,
    p_before text,                          -- digest of the rows that stay; null replaces all
    p_families smallint[], p_ids text[], p_sessions text[], p_seqs integer[], p_bodies text[],
    p_columns text[], p_terms text[], p_lengths integer[]
) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ralph_team, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    pid integer := member_of(p_project, true);
    prefix text := pid || '/';
    today text := to_char(extract(epoch FROM now()), 'FM000000000000');
    s sources%ROWTYPE;
    added integer; size bigint; highest bigint;
BEGIN
    INSERT INTO machines (project, machine) VALUES (pid, p_machine) ON CONFLICT DO NOTHING;
    IF NOT EXISTS (SELECT FROM machines WHERE project = pid AND machine = p_machine AND member = session_user) THEN
        RAISE unique_violation USING MESSAGE = 'this machine belongs to another member';
    ELSIF (p_machine ~ '^[[:alnum:]_-]{1,64}$' AND p_format ~ '^[[:alnum:]_-]{1,40}$' AND p_size >= 0 AND p_lines >= 0
        AND octet_length(p_path) BETWEEN 1 AND 2000 AND octet_length(p_rules || p_digest) <= 200
        AND octet_length(p_branch || p_commit) <= 500 AND p_committed_at ~ '^([0-9]{12})?$') IS NOT TRUE THEN
        RAISE check_violation USING MESSAGE = 'this is no source of a machine';
    ELSIF EXISTS (SELECT FROM unnest(p_families, p_ids, p_sessions, p_seqs, p_bodies, p_columns, p_terms, p_lengths)
        AS g(family, id, session, seq, body, columns, terms, length) WHERE NOT is_row(g.family, g.id, g.session, g.seq,
            g.body, g.columns, g.terms, g.length)) THEN
        RAISE check_violation USING MESSAGE = 'a row is no line of the log, or too large';
    END IF;
    SELECT * INTO s FROM sources WHERE project = pid AND machine = p_machine AND path = p_path;
    IF s.key IS NULL THEN
        INSERT INTO sources (project, member, machine, path, format, rules, digest, size, lines, branch, commit,
            committed_at, is_default)
        VALUES (pid, session_user, p_machine, p_path, p_format, p_rules, '', 0, 0, '', '', '', false) RETURNING * INTO s;
    END IF;
    IF p_before IS NULL THEN
        PERFORM drop_rows(pid, (SELECT array_agg(key) FROM records WHERE source = s.key));
        DELETE FROM sessions WHERE source = s.key;
        UPDATE sources SET generation = gen_random_uuid() WHERE key = s.key;
    ELSIF s.digest <> p_before THEN
        RAISE serialization_failure USING MESSAGE = 'another process pushed this source meanwhile';
    END IF;
    WITH given AS (
        SELECT * FROM unnest(p_families, p_ids, p_sessions, p_seqs, p_bodies, p_columns, p_terms, p_lengths)
            WITH ORDINALITY AS g(family, id, session, seq, body, columns, terms, length, at)
        WHERE NOT EXISTS (SELECT FROM tombstones t WHERE t.project = pid AND t.id = g.id)
    ), about AS (
        INSERT INTO sessions (source, project, id, body)
        SELECT s.key, pid, id, body FROM given WHERE family = 3 ORDER BY at RETURNING key
    ), new AS (
        INSERT INTO records (source, project, length, seq, family, id, session, body, columns, terms)
        SELECT s.key, pid, g.length, g.seq, g.family, g.id, g.session, g.body, g.columns,
            CASE WHEN g.terms = '' THEN '{}' ELSE
                string_to_array(prefix || replace(g.terms, ' ', ' ' || prefix), ' ') END
        FROM given g WHERE family < 3 ORDER BY at RETURNING key, length, terms
    ), words AS (
        INSERT INTO vocabulary AS v (project, docs, term)
        SELECT pid, count(*), substr(e, length(prefix) + 2) FROM new, unnest(new.terms) e GROUP BY 3
        ON CONFLICT (project, term) DO UPDATE SET docs = v.docs + excluded.docs
    )
    SELECT (SELECT count(*) FROM new), (SELECT coalesce(sum(length), 0) FROM new),
        greatest((SELECT max(key) FROM new), (SELECT max(key) FROM about)) INTO added, size, highest;
    UPDATE projects SET records = records + added, tokens = tokens + size WHERE id = pid;
    UPDATE sources SET format = p_format, rules = p_rules, digest = p_digest, size = p_size, lines = p_lines,
        branch = p_branch, commit = p_commit, committed_at = least(p_committed_at, today), is_default = p_is_default,
        records = records + added, last = coalesce(highest, last), pushed_at = now() WHERE key = s.key;
    RETURN added;
END $$;

CREATE FUNCTION remove_sources(p_project text, p_machine text, p_paths text[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ralph_team, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    pid integer := member_of(p_project, true);
    keys bigint[] := ARRAY(SELECT key FROM sources WHERE project = pid AND machine = p_machine
        AND member = session_user AND (p_paths IS NULL OR path = ANY (p_paths)));
BEGIN  -- null: all of them
    PERFORM drop_rows(pid, (SELECT array_agg(key) FROM records WHERE source = ANY (keys)));
    DELETE FROM sessions WHERE source = ANY (keys);
    DELETE FROM sources WHERE key = ANY (keys);
    RETURN cardinality(keys);
END $$;

CREATE FUNCTION forget(p_project text, p_ids text[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ralph_team, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    pid integer := member_of(p_project, true);
    keys bigint[] := ARRAY(SELECT key FROM records WHERE project = pid AND id = ANY (p_ids));
BEGIN
    INSERT INTO tombstones (project, id) SELECT pid, unnest(p_ids) ON CONFLICT DO NOTHING;
    DELETE FROM sessions WHERE project = pid AND id = ANY (p_ids);
    PERFORM drop_rows(pid, keys);
    RETURN cardinality(keys);
END $$;

CREATE FUNCTION my_projects() RETURNS TABLE (name text, may_write boolean, records bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
    SELECT p.name, m.may_write, p.records
    FROM (SELECT project, may_write FROM members WHERE role = session_user OFFSET 0) m,
        LATERAL (SELECT name, records FROM projects WHERE id = m.project OFFSET 0) p ORDER BY 1;
$$;

CREATE FUNCTION schema_version() RETURNS integer
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
    SELECT number FROM version;
$$;

CREATE FUNCTION sources_of(p_project text) RETURNS TABLE (
    key bigint, member name, machine text, path text, format text, rules text, digest text, size bigint, lines integer,
    branch text, commit text, generation uuid, records integer, last bigint
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN
    RETURN QUERY SELECT key, member, machine, path, format, rules, digest, size, lines, branch, commit, generation,
        records, last FROM sources WHERE project = pid ORDER BY key;
END $$;

CREATE FUNCTION tombstones_of(p_project text) RETURNS SETOF text
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
DECLARE pid integer := member_of(p_project, false);
BEGIN
    RETURN QUERY SELECT id FROM tombstones WHERE project = pid;
END $$;

-- Read by the project's sources: reading those of another project would reveal how many rows it has.
CREATE FUNCTION rows_of(p_project text, p_sources bigint[], p_after bigint[])
RETURNS TABLE (source bigint, key bigint, id text, body text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN
    RETURN QUERY WITH own AS MATERIALIZED (
        SELECT key FROM sources WHERE project = pid
    ), wanted AS MATERIALIZED (
        SELECT w.source, w.after FROM unnest(p_sources, p_after) w(source, after) JOIN own ON own.key = w.source
    )
    SELECT r.source, r.key, r.id, r.body FROM wanted w
        JOIN records r ON r.source = w.source AND r.key > w.after AND r.project = pid
    UNION ALL
    SELECT r.source, r.key, r.id, r.body FROM wanted w
        JOIN sessions r ON r.source = w.source AND r.key > w.after AND r.project = pid
    ORDER BY 1, 2;
END $$;

CREATE FUNCTION memories_of(p_project text, p_machine text)
RETURNS TABLE (format text, member name, branch text, commit text, id text, body text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN  -- of each memory the copy of the default branch with the newest commit
    RETURN QUERY SELECT DISTINCT ON (r.id) s.format, s.member, s.branch, s.commit, r.id, r.body FROM sources s,
        LATERAL (SELECT * FROM records WHERE source = s.key AND project = pid AND family = 0 OFFSET 0) r
        WHERE s.project = pid AND s.machine <> p_machine AND s.format NOT IN ('observations', 'summaries', 'journal')
        ORDER BY r.id, s.is_default DESC, s.committed_at DESC, r.key DESC;
END $$;

CREATE FUNCTION size_of(p_project text) RETURNS TABLE (records bigint, tokens bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN
    RETURN QUERY SELECT records, tokens FROM projects WHERE id = pid;
END $$;

CREATE FUNCTION frequencies(p_project text, p_terms text[]) RETURNS TABLE (term text, docs integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN
    RETURN QUERY SELECT term, docs FROM vocabulary WHERE project = pid AND term = ANY (p_terms);
END $$;

CREATE FUNCTION terms_from(p_project text, p_first text, p_end text, p_most integer)
RETURNS TABLE (term text, docs integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN
    RETURN QUERY SELECT term, docs FROM vocabulary
        WHERE project = pid AND term >= p_first AND term < p_end ORDER BY term LIMIT p_most;
END $$;

CREATE FUNCTION terms_with(p_project text, p_part text, p_most integer) RETURNS TABLE (term text, docs integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN
    RETURN QUERY SELECT term, docs FROM vocabulary
        WHERE project = pid AND strpos(term, p_part) > 0 ORDER BY term LIMIT p_most;
END $$;

-- A separate function, since a planner that joins terms with rows reads all rows if there are many terms.
CREATE FUNCTION keys_with_term(p_term text) RETURNS SETOF bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN QUERY SELECT key FROM records WHERE terms @> ARRAY[p_term];
END $$;

-- The rows with the highest weights, by the levels in the index; the caller computes the exact weights.
CREATE FUNCTION candidates(p_project text, p_terms text[], p_weights float8[], p_most integer)
RETURNS TABLE (key bigint, family smallint, length integer, columns text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp SET enable_seqscan = off SET jit = off AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN
    RETURN QUERY SELECT r.key, r.family, r.length, r.columns FROM (
        SELECT k.key FROM unnest(p_terms, p_weights) w(term, weight), generate_series(0, 15) level,
            LATERAL keys_with_term(pid || '/' || substr('0123456789abcdef', level + 1, 1) || w.term) k(key)
        GROUP BY k.key ORDER BY sum(w.weight * (level + 0.5::float8)) DESC, k.key DESC LIMIT least(p_most, 2000)
    ) best JOIN records r ON r.project = pid AND r.key = best.key;
END $$;

CREATE FUNCTION rows_at(p_project text, p_keys bigint[])
RETURNS TABLE (key bigint, family smallint, member name, id text, body text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN  -- of a memory only the copy that is pulled, too: see memories_of
    RETURN QUERY SELECT r.key, r.family, s.member, r.id, r.body FROM unnest(p_keys) k,
        LATERAL (SELECT * FROM records WHERE key = k AND project = pid OFFSET 0) r JOIN sources s ON s.key = r.source
        WHERE r.family <> 0 OR r.key = (
            SELECT c.key FROM records c JOIN sources o ON o.key = c.source WHERE c.id = r.id AND c.project = pid
            ORDER BY o.is_default DESC, o.committed_at DESC, c.key DESC LIMIT 1);
END $$;

CREATE FUNCTION keys_with(p_project text, p_ids text[]) RETURNS TABLE (id text, key bigint, family smallint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN
    RETURN QUERY SELECT id, key, family FROM records WHERE project = pid AND id = ANY (p_ids) ORDER BY key;
END $$;

CREATE FUNCTION neighbours(p_project text, p_keys bigint[], p_reach integer)
RETURNS TABLE (key bigint, other bigint, step integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN
    RETURN QUERY SELECT a.key, b.key, b.seq - a.seq FROM unnest(p_keys) k, LATERAL (
        SELECT r.key, r.session, r.seq FROM records r
        WHERE r.key = k AND r.project = pid AND r.family = 1 AND r.session <> '' OFFSET 0
    ) a, LATERAL (
        SELECT o.key, o.seq FROM records o WHERE o.session = a.session AND o.seq BETWEEN a.seq - p_reach AND a.seq + p_reach
            AND o.family = 1 AND o.project = pid AND o.key <> a.key OFFSET 0  -- for each row of its own
    ) b;
END $$;

CREATE FUNCTION add_member(p_project text, p_role name, p_write boolean DEFAULT true) RETURNS void LANGUAGE sql AS $$
    INSERT INTO ralph_team.projects (name) VALUES (p_project) ON CONFLICT DO NOTHING;
    INSERT INTO ralph_team.members (role, project, may_write)
        SELECT p_role, id, p_write FROM ralph_team.projects WHERE name = p_project
        ON CONFLICT (role, project) DO UPDATE SET may_write = excluded.may_write;
$$;

-- Planner statistics would reveal words, names and numbers to everybody who can print a plan, without any rights.
CREATE FUNCTION hide_statistics() RETURNS void LANGUAGE plpgsql AS $$
DECLARE each record;
BEGIN
    FOR each IN SELECT c.oid::regclass AS name, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
        WHERE c.relnamespace = 'ralph_team'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0
            AND NOT a.attisdropped AND a.attstattarget IS DISTINCT FROM 0
    LOOP
        EXECUTE format('ALTER TABLE %s ALTER COLUMN %I SET STATISTICS 0', each.name, each.attname);
    END LOOP;
END $$;
SELECT hide_statistics();

REVOKE ALL ON ALL TABLES IN SCHEMA ralph_team FROM PUBLIC;
REVOKE ALL ON ALL SEQUENCES IN SCHEMA ralph_team FROM PUBLIC;
REVOKE ALL ON FUNCTION member_of, is_row, drop_rows, keys_with_term, add_member, hide_statistics FROM PUBLIC;
