-- Problems of the schema: rights, functions without a fixed search path, wrong counts, statistics. The caller compares
-- function bodies with those in the schema file.
WITH owner AS (SELECT nspowner AS id FROM pg_namespace WHERE nspname = 'ralph_team'),
tables AS (SELECT * FROM pg_class WHERE relnamespace = 'ralph_team'::regnamespace),
functions AS (SELECT * FROM pg_proc WHERE pronamespace = 'ralph_team'::regnamespace),
given AS (
    SELECT 'may use the table ' || relname AS what, a.grantee FROM tables, aclexplode(relacl) a
    UNION SELECT format('may use the column %s.%s', t.relname, c.attname), a.grantee
    FROM tables t JOIN pg_attribute c ON c.attrelid = t.oid, aclexplode(c.attacl) a
    UNION SELECT 'may ' || a.privilege_type || ' in the schema', a.grantee
    FROM pg_namespace, aclexplode(nspacl) a
    WHERE nspname = 'ralph_team' AND (a.grantee, a.privilege_type) <> (0::oid, 'USAGE')
    UNION SELECT 'may call ' || proname, a.grantee
    FROM functions, aclexplode(coalesce(proacl, acldefault('f', proowner))) a WHERE NOT prosecdef
)
SELECT format('%s %s', CASE grantee WHEN 0 THEN 'everybody' ELSE grantee::regrole::text END, what)
FROM given WHERE grantee <> (SELECT id FROM owner)
UNION ALL SELECT format('%s does not belong to the owner of the schema', name)
FROM (SELECT relname, relowner FROM tables UNION SELECT proname, proowner FROM functions) o(name, holder)
WHERE holder <> (SELECT id FROM owner)
UNION ALL SELECT format('%s is a view or a foreign table', relname) FROM tables WHERE relkind IN ('v', 'm', 'f')
UNION ALL SELECT format('%s has the trigger %s', t.relname, g.tgname)
FROM tables t JOIN pg_trigger g ON g.tgrelid = t.oid WHERE NOT g.tgisinternal
UNION ALL SELECT format('the function %s has no fixed search path', proname) FROM functions
WHERE prosecdef AND NOT coalesce('search_path=ralph_team, pg_temp' = ANY (proconfig), false)
UNION ALL SELECT format('machine %s of %s counts %s records and has %s', m.machine, m.member, m.records, coalesce(s.number, 0))
FROM ralph_team.machines m
LEFT JOIN (SELECT project, machine, sum(records) AS number FROM ralph_team.sources GROUP BY 1, 2) s
ON (s.project, s.machine) = (m.project, m.machine)
WHERE coalesce(s.number, 0) <> m.records
UNION ALL SELECT format('%s of machine %s of %s has %s row(s) and counts %s, or one of them was changed: after '
    '`UPDATE ralph_team.projects SET epoch = gen_random_uuid()`, `ralph team sync` there sends it again',
    s.path, s.machine, s.member, coalesce(c.number, 0), s.row_count)
FROM ralph_team.sources s LEFT JOIN (
    SELECT source, count(*) AS number, bit_xor(ralph_team.row_digest(body)) AS checksum FROM (
        SELECT source, body FROM ralph_team.records UNION ALL SELECT source, body FROM ralph_team.sessions
    ) r GROUP BY 1
) c ON c.source = s.key
WHERE (coalesce(c.number, 0), coalesce(c.checksum, 0)) <> (s.row_count, s.checksum)
UNION ALL SELECT format('%s row(s) belong to no source: DELETE FROM ralph_team.records WHERE source = %s', count(*), r.source)
FROM ralph_team.records r WHERE r.source NOT IN (SELECT key FROM ralph_team.sources) GROUP BY r.source
UNION ALL SELECT format('machine %s of %s has %s of %s row(s) of the other machines: `ralph team sync` there fetches them',
    machine, member, row_count, expected)
FROM ralph_team.pulls WHERE row_count < expected
UNION ALL SELECT format('machine %s of %s still has %s row(s) that the server lost: `ralph team sync` sends them again on the '
    'machines that they come from', machine, member, lost)
FROM ralph_team.pulls WHERE lost > 0
UNION ALL SELECT format('machine %s of %s has not synced since the server was restored or moved: `ralph team sync` there sends '
    'what the server lost and fetches what it lacks', machine, member)
FROM (
    SELECT project, machine, member, epoch, at FROM ralph_team.pulls
    UNION ALL SELECT project, machine, member, epoch, synced_at FROM ralph_team.machines WHERE epoch <> ''
) p WHERE epoch <> ralph_team.project_epoch(project) AND at > now() - interval '90 days' GROUP BY machine, member
UNION ALL SELECT format('the role %s of a member does not exist', role) FROM ralph_team.members
WHERE role NOT IN (SELECT rolname FROM pg_roles)
UNION ALL SELECT DISTINCT format('the member %s may act as the owner of the tables', m.role)
FROM ralph_team.members m JOIN pg_roles r ON r.rolname = m.role
WHERE r.oid <> (SELECT id FROM owner) AND pg_has_role(r.oid, (SELECT id FROM owner), 'MEMBER')
-- The view shows the owner its own tables. Only a superuser may read pg_statistic itself.
UNION ALL SELECT format('the planner has statistics of %s.%s, which anybody can learn words from: %s', relname, attname,
    CASE WHEN has_statistics THEN 'DELETE FROM pg_statistic' ELSE 'SELECT ralph_team.hide_statistics()' END)
FROM (
    SELECT c.relname, a.attname, a.attstattarget, EXISTS (
        SELECT FROM pg_stats s
        WHERE s.schemaname = 'ralph_team' AND s.tablename = c.relname AND s.attname = a.attname
    ) AS has_statistics
    FROM tables c JOIN pg_attribute a ON a.attrelid = c.oid
    WHERE c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
) o
WHERE attstattarget IS DISTINCT FROM 0 OR has_statistics
