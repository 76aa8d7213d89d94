-- A restored server loses nothing silently: each source has a count and a checksum of its rows, and each project has an
-- epoch that changes when the server is restored from a backup. Pushes of different machines no longer wait for each
-- other: the counts of records belong to machines, and words that cannot be counted immediately are counted later.

SET LOCAL search_path = ralph_team, pg_temp;

-- The checksum of a source is the exclusive or of these numbers; clients compute the same from the rows they pull.
CREATE FUNCTION row_digest(body text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT ('x' || left(encode(sha256(convert_to(body, 'UTF8')), 'hex'), 16))::bit(64)::bigint;
$$;

ALTER TABLE projects
    ADD COLUMN epoch uuid NOT NULL DEFAULT gen_random_uuid(),
    ADD COLUMN secret uuid NOT NULL DEFAULT gen_random_uuid();              -- no member learns it: see proof

ALTER TABLE sources
    ADD COLUMN row_count integer NOT NULL DEFAULT 0,        -- records and sessions
    ADD COLUMN checksum bigint NOT NULL DEFAULT 0,          -- of these rows: see row_digest
    ADD COLUMN tokens bigint NOT NULL DEFAULT 0,            -- of its records
    ADD COLUMN checked_epoch text NOT NULL DEFAULT '',      -- project_epoch when its rows were last compared with them
    ADD COLUMN epoch text NOT NULL DEFAULT '',              -- project_epoch when its machine last had its file
    ADD COLUMN changed_at timestamptz NOT NULL DEFAULT clock_timestamp();   -- grows with every push of its rows

ALTER TABLE machines
    ADD COLUMN records bigint NOT NULL DEFAULT 0,
    ADD COLUMN tokens bigint NOT NULL DEFAULT 0,
    ADD COLUMN synced_at timestamptz NOT NULL DEFAULT to_timestamp(0),      -- when its last complete push ended
    ADD COLUMN epoch text NOT NULL DEFAULT '',      -- project_epoch at that time
    ADD COLUMN keeps text[] NOT NULL DEFAULT '{}';  -- formats whose files it may delete while their rows stay here

CREATE TABLE vocabulary_changes (           -- to be added to the vocabulary: see count_words
    project integer NOT NULL,
    docs integer NOT NULL,
    term text COLLATE "C" NOT NULL
);
CREATE INDEX vocabulary_changes_term ON vocabulary_changes (project, term);

CREATE TABLE pulls (                        -- what a machine had after its last pull: of each member the latest 100
    project integer NOT NULL REFERENCES projects,
    member name NOT NULL DEFAULT session_user,
    machine text NOT NULL,
    epoch text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    row_count bigint NOT NULL,              -- rows of other machines that it has
    expected bigint NOT NULL,               -- rows of other machines that the server listed
    lost bigint NOT NULL,                   -- rows that it has and that the server lost
    PRIMARY KEY (project, member, machine)
);

WITH contents AS (
    SELECT source, body, 1 AS record, length FROM records UNION ALL SELECT source, body, 0, 0 FROM sessions
)
UPDATE sources s SET row_count = c.row_count, records = c.records, tokens = c.tokens, checksum = c.checksum
FROM (
    SELECT source, count(*) AS row_count, sum(record) AS records, sum(length) AS tokens, bit_xor(row_digest(body)) AS checksum
    FROM contents GROUP BY 1
) c WHERE c.source = s.key;
UPDATE sources SET changed_at = pushed_at;
INSERT INTO machines (project, machine, member) SELECT DISTINCT ON (project, machine) project, machine, member FROM sources
    ON CONFLICT DO NOTHING;
UPDATE machines m SET records = c.records, tokens = c.tokens
FROM (SELECT project, machine, sum(records) AS records, sum(tokens) AS tokens FROM sources GROUP BY 1, 2) c
WHERE (c.project, c.machine) = (m.project, m.machine);

ALTER TABLE projects DROP COLUMN records, DROP COLUMN tokens;
ALTER TABLE sources DROP COLUMN tokens;

-- --- helpers --------------------------------------------------------------------------------------

-- Changes if the project's tables are restored from a dump, or on another server, or if a server goes back to an earlier
-- state with archived changes. `notice_restore` and `notice_lost_push` change it if only files were copied back.
CREATE FUNCTION project_epoch(p_project integer) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE timeline text;
BEGIN
    IF pg_is_in_recovery() THEN
        SELECT to_char(timeline_id, 'FM0XXXXXXX') INTO timeline FROM pg_control_checkpoint();
    ELSE
        timeline := left(pg_walfile_name(pg_current_wal_insert_lsn()), 8);
    END IF;
    RETURN (
        SELECT left(encode(sha256(convert_to(concat_ws('/', p.epoch, c.system_identifier, timeline, d.oid,
            'ralph_team.sources'::regclass::oid), 'UTF8')), 'hex'), 32)
        FROM ralph_team.projects p, pg_control_system() c, pg_database d
        WHERE p.id = p_project AND d.datname = current_database());
END $$;

-- A clock that was set back does not make a later change look like an earlier one.
CREATE FUNCTION later_than(p_time timestamptz) RETURNS timestamptz LANGUAGE sql VOLATILE AS $$
    SELECT greatest(clock_timestamp(), p_time + interval '1 microsecond');
$$;

CREATE FUNCTION microseconds(p_time timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT (extract(epoch FROM p_time) * 1000000)::bigint;
$$;

-- Members keep what the server told them with a proof, and show both to a server that does not know it any more. Without
-- it, any member could claim that the server was restored, or that another machine had removed its rows. A proof names the
-- epoch in which it was given: nobody can announce the same restore twice.
CREATE FUNCTION proof(p_project integer, p_fact text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT left(encode(sha256(convert_to(concat_ws('/', p.secret, p_fact), 'UTF8')), 'hex'), 32)
    FROM ralph_team.projects p WHERE p.id = p_project;
$$;

CREATE FUNCTION proof_of_key(p_project integer, p_epoch text, p_key bigint) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT ralph_team.proof(p_project, concat_ws('/', 'key', p_epoch, p_key));
$$;

CREATE FUNCTION proof_of_push(p_project integer, p_epoch text, p_machine text, p_synced_at bigint) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT ralph_team.proof(p_project, concat_ws('/', 'push', p_epoch, p_machine, p_synced_at));
$$;

-- Pushes to a project do not exclude each other; only `forget` excludes them, so that no push can miss its tombstone.
CREATE OR REPLACE FUNCTION member_of(p_project text, p_write boolean) RETURNS integer
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
    IF p_write THEN
        PERFORM FROM projects WHERE id = number FOR KEY SHARE;
    END IF;
    RETURN number;
END $$;

-- Only one transaction at a time changes the vocabulary of a project, so that none waits for the words of another one.
-- The others leave their changes to whoever comes next.
CREATE FUNCTION count_words(p_project integer, p_terms text[], p_docs integer[]) RETURNS void
LANGUAGE plpgsql SET enable_seqscan = off AS $$
BEGIN
    PERFORM FROM projects WHERE id = p_project FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        INSERT INTO vocabulary_changes (project, docs, term) SELECT p_project, docs, term
            FROM unnest(p_docs, p_terms) AS w(docs, term);
        RETURN;
    END IF;
    WITH pending AS (
        DELETE FROM vocabulary_changes WHERE project = p_project RETURNING term, docs
    ), words AS (
        SELECT term, sum(docs)::integer AS docs FROM (
            SELECT term, docs FROM pending UNION ALL SELECT * FROM unnest(p_terms, p_docs)
        ) w GROUP BY 1
    ), none AS (
        DELETE FROM vocabulary v USING words w
        WHERE w.docs < 0 AND v.project = p_project AND v.term = w.term AND v.docs + w.docs <= 0
    ), fewer AS (
        UPDATE vocabulary v SET docs = v.docs + w.docs FROM words w
        WHERE w.docs < 0 AND v.project = p_project AND v.term = w.term AND v.docs + w.docs > 0
    )
    INSERT INTO vocabulary AS v (project, docs, term) SELECT p_project, docs, term FROM words WHERE docs > 0
        ON CONFLICT (project, term) DO UPDATE SET docs = v.docs + excluded.docs;
END $$;

CREATE OR REPLACE FUNCTION drop_rows(p_project integer, p_keys bigint[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    words text[]; numbers integer[];
BEGIN
    WITH gone AS (
        DELETE FROM records WHERE project = p_project AND key = ANY (p_keys) RETURNING source, length, terms, body
    ), sums AS (
        SELECT source, count(*)::integer AS number, sum(length) AS tokens, bit_xor(row_digest(body)) AS checksum
        FROM gone GROUP BY 1
    ), changed AS (
        UPDATE sources s SET generation = gen_random_uuid(), records = s.records - g.number,
            row_count = s.row_count - g.number, checksum = s.checksum # g.checksum
        FROM sums g WHERE s.key = g.source RETURNING s.machine, g.number, g.tokens
    ), fewer AS (
        UPDATE machines m SET records = m.records - g.number, tokens = m.tokens - g.tokens
        FROM (SELECT machine, sum(number) AS number, sum(tokens) AS tokens FROM changed GROUP BY 1) g
        WHERE m.project = p_project AND m.machine = g.machine
    )
    SELECT array_agg(term), array_agg(-docs) INTO words, numbers
    FROM (SELECT substr(e, strpos(e, '/') + 2) AS term, count(*)::integer AS docs FROM gone, unnest(terms) e GROUP BY 1) w;
    IF words IS NOT NULL THEN
        PERFORM count_words(p_project, words, numbers);
    END IF;
END $$;

-- --- push -----------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION push(
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
    now_epoch text := project_epoch(pid);
    s sources%ROWTYPE;
    holder name;
    added integer; size bigint; highest bigint; sessions_added integer; row_checksum bigint; words text[]; numbers integer[];
BEGIN
    INSERT INTO machines (project, machine) VALUES (pid, p_machine) ON CONFLICT DO NOTHING;
    -- One push of a machine at a time: the keys of a source's rows grow with each push.
    SELECT member INTO holder FROM machines WHERE project = pid AND machine = p_machine FOR NO KEY UPDATE;
    IF holder IS DISTINCT FROM session_user THEN
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
        UPDATE sources SET generation = gen_random_uuid(), row_count = 0, checksum = 0 WHERE key = s.key;
    ELSIF s.digest <> p_before THEN
        RAISE serialization_failure USING MESSAGE = 'another process pushed this source meanwhile';
    END IF;
    WITH given AS (
        SELECT * FROM unnest(p_families, p_ids, p_sessions, p_seqs, p_bodies, p_columns, p_terms, p_lengths)
            WITH ORDINALITY AS g(family, id, session, seq, body, columns, terms, length, at)
        WHERE NOT EXISTS (SELECT FROM tombstones t WHERE t.project = pid AND t.id = g.id)
            AND g.id !~ '[[:cntrl:]]'  -- it could not be forgotten
    ), about AS (
        INSERT INTO sessions (source, project, id, body)
        SELECT s.key, pid, id, body FROM given WHERE family = 3 ORDER BY at RETURNING key, body
    ), new AS (
        INSERT INTO records (source, project, length, seq, family, id, session, body, columns, terms)
        SELECT s.key, pid, g.length, g.seq, g.family, g.id, g.session, g.body, g.columns,
            CASE WHEN g.terms = '' THEN '{}' ELSE
                string_to_array(prefix || replace(g.terms, ' ', ' ' || prefix), ' ') END
        FROM given g WHERE family < 3 ORDER BY at RETURNING key, length, terms, body
    ), counted AS (
        SELECT substr(e, length(prefix) + 2) AS term, count(*)::integer AS docs FROM new, unnest(new.terms) e GROUP BY 1
    )
    SELECT (SELECT count(*) FROM new), (SELECT coalesce(sum(length), 0) FROM new), (SELECT count(*) FROM about),
        greatest((SELECT max(key) FROM new), (SELECT max(key) FROM about)),
        (SELECT bit_xor(row_digest(body)) FROM (SELECT body FROM new UNION ALL SELECT body FROM about) b),
        (SELECT array_agg(term) FROM counted), (SELECT array_agg(docs) FROM counted)
    INTO added, size, sessions_added, highest, row_checksum, words, numbers;
    IF words IS NOT NULL THEN
        PERFORM count_words(pid, words, numbers);
    END IF;
    UPDATE machines SET records = records + added, tokens = tokens + size WHERE project = pid AND machine = p_machine;
    UPDATE sources SET format = p_format, rules = p_rules, digest = p_digest, size = p_size, lines = p_lines,
        branch = p_branch, commit = p_commit, committed_at = least(p_committed_at, today), is_default = p_is_default,
        records = records + added, row_count = row_count + added + sessions_added,
        checksum = checksum # coalesce(row_checksum, 0), checked_epoch = now_epoch, epoch = now_epoch,
        last = coalesce(highest, last), pushed_at = now(), changed_at = later_than(greatest(changed_at,
            (SELECT synced_at FROM machines WHERE project = pid AND machine = p_machine))) WHERE key = s.key;
    RETURN added;
END $$;

-- Called at the end of a push: from now on, what the server lists is all that this machine shares, except in the given
-- formats. Of those, it may have deleted files whose rows are meant to stay. A push that began before a restore does not
-- know what the server lost meanwhile: `p_epoch` is that of `check_rows`.
CREATE FUNCTION finish_push(p_project text, p_machine text, p_epoch text, p_keeps text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ralph_team, pg_temp SET lock_timeout = '10s' SET enable_seqscan = off AS $$
DECLARE
    pid integer := member_of(p_project, true);
BEGIN
    IF (p_machine ~ '^[[:alnum:]_-]{1,64}$' AND octet_length(p_keeps::text) <= 500) IS NOT TRUE THEN
        RAISE check_violation USING MESSAGE = 'this is no machine';
    ELSIF p_epoch IS DISTINCT FROM project_epoch(pid) THEN
        RAISE serialization_failure USING MESSAGE = 'the server was restored meanwhile';
    END IF;
    INSERT INTO machines (project, machine) VALUES (pid, p_machine) ON CONFLICT DO NOTHING;
    UPDATE machines SET keeps = p_keeps, epoch = p_epoch, synced_at = greatest(later_than(synced_at),
        (SELECT max(changed_at) FROM sources WHERE project = pid AND machine = p_machine))
    WHERE project = pid AND machine = p_machine AND member = session_user;
    IF EXISTS (SELECT FROM vocabulary_changes WHERE project = pid) THEN
        PERFORM count_words(pid, '{}', '{}');
    END IF;
END $$;

-- Called at the start of a push: after a restore, compare the rows of each source with its count and checksum. If they
-- differ, clear the digest, so that the machine sends the source again. Returns the epoch, for `finish_push`.
CREATE FUNCTION check_rows(p_project text, p_machine text) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ralph_team, pg_temp SET lock_timeout = '10s' SET enable_seqscan = off AS $$
DECLARE
    pid integer := member_of(p_project, true);
    now_epoch text := project_epoch(pid);
    keys bigint[];
BEGIN
    PERFORM FROM machines WHERE project = pid AND machine = p_machine AND member = session_user FOR NO KEY UPDATE;
    keys := ARRAY(SELECT key FROM sources WHERE project = pid AND machine = p_machine AND member = session_user
        AND checked_epoch <> now_epoch);
    WITH contents AS (
        SELECT source, body FROM records WHERE source = ANY (keys) AND project = pid
        UNION ALL SELECT source, body FROM sessions WHERE source = ANY (keys)
    ), found AS (
        SELECT source, count(*) AS number, bit_xor(row_digest(body)) AS checksum FROM contents GROUP BY 1
    ), differing AS (
        SELECT s.key FROM sources s LEFT JOIN found f ON f.source = s.key WHERE s.key = ANY (keys)
            AND (s.row_count, s.checksum) IS DISTINCT FROM (coalesce(f.number, 0), coalesce(f.checksum, 0))
    )
    UPDATE sources s SET checked_epoch = now_epoch,
        digest = CASE WHEN s.key IN (SELECT key FROM differing) THEN '' ELSE s.digest END
    WHERE s.key = ANY (keys);
    RETURN now_epoch;
END $$;

-- Called in the first push after a restore: the machine still has the files of these sources, unchanged since the server
-- listed these digests. The others hold what the backup had, and their machine may not have their files any more.
CREATE FUNCTION confirm_sources(p_project text, p_machine text, p_paths text[], p_digests text[]) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ralph_team, pg_temp SET lock_timeout = '10s' SET enable_seqscan = off AS $$
DECLARE
    pid integer := member_of(p_project, true);
    now_epoch text := project_epoch(pid);
BEGIN
    UPDATE sources s SET epoch = now_epoch FROM unnest(p_paths, p_digests) c(path, digest)
        WHERE s.project = pid AND s.machine = p_machine AND s.member = session_user
            AND (s.path, s.digest, s.checked_epoch) = (c.path, c.digest, now_epoch);
END $$;

CREATE OR REPLACE FUNCTION remove_sources(p_project text, p_machine text, p_paths text[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ralph_team, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    pid integer := member_of(p_project, true);
    keys bigint[];
BEGIN  -- null: all of them
    PERFORM FROM machines WHERE project = pid AND machine = p_machine AND member = session_user FOR NO KEY UPDATE;
    keys := ARRAY(SELECT key FROM sources WHERE project = pid AND machine = p_machine
        AND member = session_user AND (p_paths IS NULL OR path = ANY (p_paths)));
    PERFORM drop_rows(pid, (SELECT array_agg(key) FROM records WHERE source = ANY (keys)));
    UPDATE machines m SET synced_at = greatest(later_than(m.synced_at),
        (SELECT max(changed_at) FROM sources WHERE key = ANY (keys))),
        keeps = ARRAY(SELECT f FROM unnest(m.keeps) f
            WHERE p_paths IS NOT NULL AND f NOT IN (SELECT format FROM sources WHERE key = ANY (keys)))
    WHERE m.project = pid AND m.machine = p_machine AND m.member = session_user;
    DELETE FROM sessions WHERE source = ANY (keys);
    DELETE FROM sources WHERE key = ANY (keys);
    IF p_paths IS NULL THEN
        DELETE FROM pulls WHERE project = pid AND machine = p_machine AND member = session_user;
    END IF;
    RETURN cardinality(keys);
END $$;

CREATE OR REPLACE FUNCTION forget(p_project text, p_ids text[]) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ralph_team, pg_temp SET lock_timeout = '10s' AS $$
DECLARE
    pid integer := member_of(p_project, true);
    keys bigint[];
BEGIN
    PERFORM FROM projects WHERE id = pid FOR UPDATE;  -- no push can be under way that does not see the tombstones
    keys := ARRAY(SELECT key FROM records WHERE project = pid AND id = ANY (p_ids));
    INSERT INTO tombstones (project, id) SELECT pid, id FROM unnest(p_ids) id  -- machines keep them one per line
        WHERE octet_length(id) BETWEEN 1 AND 1000 AND id !~ '[[:cntrl:]]' ON CONFLICT DO NOTHING;
    WITH gone AS (
        DELETE FROM sessions WHERE project = pid AND id = ANY (p_ids) RETURNING source, body
    )
    UPDATE sources s SET generation = gen_random_uuid(), row_count = s.row_count - g.number,
        checksum = s.checksum # g.checksum
    FROM (SELECT source, count(*) AS number, bit_xor(row_digest(body)) AS checksum FROM gone GROUP BY 1) g
    WHERE s.key = g.source;
    PERFORM drop_rows(pid, keys);
    RETURN cardinality(keys);
END $$;

-- --- pull -----------------------------------------------------------------------------------------

DROP FUNCTION sources_of(text);
CREATE FUNCTION sources_of(p_project text) RETURNS TABLE (
    key bigint, member name, machine text, path text, format text, rules text, digest text, size bigint, lines integer,
    branch text, commit text, generation uuid, records integer, last bigint, row_count integer, checksum bigint,
    changed_at bigint, is_confirmed boolean
) LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
#variable_conflict use_column
DECLARE
    pid integer := member_of(p_project, false);
    now_epoch text := project_epoch(pid);
BEGIN
    RETURN QUERY SELECT key, member, machine, path, format, rules, digest, size, lines, branch, commit, generation,
        records, last, row_count, checksum, microseconds(changed_at), epoch = now_epoch
        FROM sources WHERE project = pid ORDER BY key;
END $$;

CREATE FUNCTION machines_of(p_project text)
RETURNS TABLE (member name, machine text, synced_at bigint, is_synced boolean, keeps text[], proof text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    pid integer := member_of(p_project, false);
    now_epoch text := project_epoch(pid);
BEGIN
    RETURN QUERY SELECT member, machine, microseconds(synced_at), epoch = now_epoch, keeps,
        proof_of_push(pid, now_epoch, machine, microseconds(synced_at)) FROM machines WHERE project = pid;
END $$;

-- `last_key` is the last key that was given to any row: it only goes back if the server does. `highest_key` is that of the
-- project's sources, with its proof.
CREATE FUNCTION epoch_of(p_project text)
RETURNS TABLE (epoch text, last_key bigint, is_replica boolean, highest_key bigint, proof text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE
    pid integer := member_of(p_project, false);
    now_epoch text := project_epoch(pid);
BEGIN
    RETURN QUERY SELECT now_epoch, (SELECT last_value FROM row_keys), pg_is_in_recovery(), k.highest,
        proof_of_key(pid, now_epoch, k.highest)
    FROM (SELECT coalesce(max(last), 0) AS highest FROM sources WHERE project = pid) k;
END $$;

-- A machine has seen a later key than any that was given: the server's files were replaced by earlier ones.
CREATE FUNCTION notice_restore(p_project text, p_highest_key bigint, p_proof text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ralph_team, pg_temp SET lock_timeout = '10s' AS $$
DECLARE pid integer := member_of(p_project, false);
BEGIN
    UPDATE projects SET epoch = gen_random_uuid() WHERE id = pid AND p_highest_key > (SELECT last_value FROM row_keys)
        AND p_proof = proof_of_key(pid, project_epoch(pid), p_highest_key);
    RETURN FOUND;
END $$;

-- A machine has seen a later push of another machine than the server knows: it was restored, and the clock of the new
-- server is behind that of the old one.
CREATE FUNCTION notice_lost_push(p_project text, p_machine text, p_synced_at bigint, p_proof text) RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ralph_team, pg_temp SET lock_timeout = '10s' SET enable_seqscan = off AS $$
DECLARE pid integer := member_of(p_project, false);
BEGIN
    UPDATE projects SET epoch = gen_random_uuid() WHERE id = pid
        AND p_proof = proof_of_push(pid, project_epoch(pid), p_machine, p_synced_at)
        AND EXISTS (SELECT FROM machines WHERE project = pid AND machine = p_machine AND microseconds(synced_at) < p_synced_at);
    RETURN FOUND;
END $$;

-- A source that its machine removed after the backup that the server was restored from: another machine remembers when.
-- The proof shows that the server knew a later push of the machine, and so that it was restored.
CREATE FUNCTION is_removed(p_project integer, p_source bigint, p_epoch text, p_removed_at bigint, p_proof text)
RETURNS boolean LANGUAGE sql STABLE SET enable_seqscan = off AS $$
    SELECT EXISTS (
        SELECT FROM ralph_team.sources s JOIN ralph_team.machines m ON m.project = s.project AND m.machine = s.machine
        WHERE s.key = p_source AND s.project = p_project
            AND ralph_team.microseconds(greatest(s.changed_at, m.synced_at)) < p_removed_at
            AND s.epoch <> ralph_team.project_epoch(p_project)
            AND p_proof = ralph_team.proof_of_push(p_project, p_epoch, s.machine, p_removed_at));
$$;

CREATE FUNCTION remove_again(p_project text, p_source bigint, p_epoch text, p_removed_at bigint, p_proof text)
RETURNS boolean
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ralph_team, pg_temp SET lock_timeout = '10s' SET enable_seqscan = off AS $$
DECLARE
    pid integer := member_of(p_project, true);
BEGIN  -- it locks the machine only with a reason, and then looks again: the machine may have pushed meanwhile
    IF NOT is_removed(pid, p_source, p_epoch, p_removed_at, p_proof) THEN
        RETURN false;
    END IF;
    PERFORM FROM machines WHERE project = pid AND machine = (SELECT machine FROM sources WHERE key = p_source) FOR NO KEY UPDATE;
    IF NOT is_removed(pid, p_source, p_epoch, p_removed_at, p_proof) THEN
        RETURN false;
    END IF;
    PERFORM drop_rows(pid, (SELECT array_agg(key) FROM records WHERE source = p_source));
    UPDATE machines m SET keeps = array_remove(m.keeps, s.format) FROM sources s  -- the rows are not meant to stay
    WHERE s.key = p_source AND m.project = pid AND m.machine = s.machine;
    DELETE FROM sessions WHERE source = p_source;
    DELETE FROM sources WHERE key = p_source;
    RETURN true;
END $$;

CREATE FUNCTION report_pull(p_project text, p_machine text, p_epoch text, p_rows bigint, p_expected bigint, p_lost bigint)
RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = ralph_team, pg_temp SET lock_timeout = '10s' AS $$
DECLARE pid integer := member_of(p_project, false);
BEGIN
    IF (p_machine ~ '^[[:alnum:]_-]{1,64}$' AND octet_length(p_epoch) <= 64) IS NOT TRUE THEN
        RAISE check_violation USING MESSAGE = 'this is no machine';
    END IF;
    INSERT INTO pulls AS p (project, machine, epoch, row_count, expected, lost)
        VALUES (pid, p_machine, p_epoch, p_rows, p_expected, p_lost)
        ON CONFLICT (project, member, machine) DO UPDATE SET epoch = excluded.epoch, at = excluded.at,
            row_count = excluded.row_count, expected = excluded.expected, lost = excluded.lost;
    DELETE FROM pulls WHERE project = pid AND member = session_user AND machine IN (
        SELECT machine FROM pulls WHERE project = pid AND member = session_user ORDER BY at DESC OFFSET 100);
END $$;

-- Each source is read by itself: without statistics, a planner that joins many of them with rows reads the whole project.
CREATE OR REPLACE FUNCTION rows_of(p_project text, p_sources bigint[], p_after bigint[])
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
    SELECT r.source, r.key, r.id, r.body FROM wanted w, LATERAL (
        SELECT source, key, id, body FROM records WHERE source = w.source AND key > w.after AND project = pid OFFSET 0
    ) r
    UNION ALL
    SELECT r.source, r.key, r.id, r.body FROM wanted w, LATERAL (
        SELECT source, key, id, body FROM sessions WHERE source = w.source AND key > w.after AND project = pid OFFSET 0
    ) r
    ORDER BY 1, 2;
END $$;

DROP FUNCTION memories_of(text, text);
CREATE FUNCTION memories_of(p_project text, p_machine text, p_without bigint[])
RETURNS TABLE (source bigint, member name, branch text, commit text, id text, body text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN  -- of each memory the copy of the default branch with the newest commit, except those of the given sources
    RETURN QUERY SELECT DISTINCT ON (r.id) s.key, s.member, s.branch, s.commit, r.id, r.body FROM sources s,
        LATERAL (SELECT * FROM records WHERE source = s.key AND project = pid AND family = 0 OFFSET 0) r
        WHERE s.project = pid AND s.machine <> p_machine AND s.format NOT IN ('observations', 'summaries', 'journal')
            AND s.key <> ALL (p_without)
        ORDER BY r.id, s.is_default DESC, s.committed_at DESC, r.key DESC;
END $$;

-- --- counts and words -----------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION my_projects() RETURNS TABLE (name text, may_write boolean, records bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp SET enable_seqscan = off AS $$
    SELECT p.name, m.may_write, c.records
    FROM (SELECT project, may_write FROM members WHERE role = session_user OFFSET 0) m,
        LATERAL (SELECT name FROM projects WHERE id = m.project OFFSET 0) p,
        LATERAL (SELECT coalesce(sum(records), 0)::bigint AS records FROM machines WHERE project = m.project OFFSET 0) c
    ORDER BY 1;
$$;

CREATE OR REPLACE FUNCTION size_of(p_project text) RETURNS TABLE (records bigint, tokens bigint)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp SET enable_seqscan = off AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN
    RETURN QUERY SELECT coalesce(sum(records), 0)::bigint, coalesce(sum(tokens), 0)::bigint FROM machines WHERE project = pid;
END $$;

CREATE OR REPLACE FUNCTION frequencies(p_project text, p_terms text[]) RETURNS TABLE (term text, docs integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN
    RETURN QUERY SELECT term, sum(docs)::integer FROM (
        SELECT term, docs FROM vocabulary WHERE project = pid AND term = ANY (p_terms)
        UNION ALL SELECT term, docs FROM vocabulary_changes WHERE project = pid AND term = ANY (p_terms)
    ) w GROUP BY 1 HAVING sum(docs) > 0;
END $$;

-- Changes that are not counted yet are rare. Without them, the index alone returns the first terms.
CREATE OR REPLACE FUNCTION terms_from(p_project text, p_first text, p_end text, p_most integer)
RETURNS TABLE (term text, docs integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN
    IF NOT EXISTS (SELECT FROM vocabulary_changes WHERE project = pid) THEN
        RETURN QUERY SELECT term, docs FROM vocabulary
            WHERE project = pid AND term >= p_first AND term < p_end ORDER BY term LIMIT p_most;
        RETURN;
    END IF;
    RETURN QUERY SELECT term, sum(docs)::integer FROM (
        SELECT term, docs FROM vocabulary WHERE project = pid AND term >= p_first AND term < p_end
        UNION ALL SELECT term, docs FROM vocabulary_changes WHERE project = pid AND term >= p_first AND term < p_end
    ) w GROUP BY 1 HAVING sum(docs) > 0 ORDER BY 1 LIMIT p_most;
END $$;

CREATE OR REPLACE FUNCTION terms_with(p_project text, p_part text, p_most integer) RETURNS TABLE (term text, docs integer)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = ralph_team, pg_temp AS $$
#variable_conflict use_column
DECLARE pid integer := member_of(p_project, false);
BEGIN
    IF NOT EXISTS (SELECT FROM vocabulary_changes WHERE project = pid) THEN
        RETURN QUERY SELECT term, docs FROM vocabulary
            WHERE project = pid AND strpos(term, p_part) > 0 ORDER BY term LIMIT p_most;
        RETURN;
    END IF;
    RETURN QUERY SELECT term, sum(docs)::integer FROM (
        SELECT term, docs FROM vocabulary WHERE project = pid AND strpos(term, p_part) > 0
        UNION ALL SELECT term, docs FROM vocabulary_changes WHERE project = pid AND strpos(term, p_part) > 0
    ) w GROUP BY 1 HAVING sum(docs) > 0 ORDER BY 1 LIMIT p_most;
END $$;

UPDATE version SET number = 2;
SELECT hide_statistics();
REVOKE ALL ON ALL TABLES IN SCHEMA ralph_team FROM PUBLIC;
REVOKE ALL ON FUNCTION row_digest, project_epoch, later_than, microseconds, count_words, proof,
    proof_of_key, proof_of_push, is_removed FROM PUBLIC;
