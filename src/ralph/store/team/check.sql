-- What is wrong with the schema: rights on tables, functions without a fixed path, wrong counts.
SELECT format('%s may use the table %s', coalesce(nullif(a.grantee, 0)::regrole::text, 'everybody'), c.relname)
FROM pg_class c, aclexplode(c.relacl) a
WHERE c.relnamespace = 'ralph_team'::regnamespace AND a.grantee <> c.relowner
UNION ALL SELECT format('the function %s has no fixed search path', proname) FROM pg_proc
WHERE pronamespace = 'ralph_team'::regnamespace AND prosecdef
    AND NOT coalesce('search_path=ralph_team, pg_temp' = ANY (proconfig), false)
UNION ALL SELECT format('everybody may call %s', proname) FROM pg_proc
WHERE pronamespace = 'ralph_team'::regnamespace AND NOT prosecdef AND has_function_privilege('public', oid, 'EXECUTE')
UNION ALL SELECT format('project %s counts %s records and has %s', p.id, p.records, r.number)
FROM ralph_team.projects p
JOIN (SELECT project, count(*) AS number FROM ralph_team.records GROUP BY 1) r ON r.project = p.id
WHERE r.number <> p.records
UNION ALL SELECT format('the role %s of a member does not exist', role) FROM ralph_team.members
WHERE role NOT IN (SELECT rolname FROM pg_roles)
UNION ALL SELECT format('the planner has statistics of %s.%s, which anybody can learn words from: %s', c.relname, a.attname,
    CASE WHEN s.starelid IS NULL THEN 'SELECT ralph_team.hide_statistics()' ELSE 'DELETE FROM pg_statistic' END)
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
LEFT JOIN pg_statistic s ON s.starelid = c.oid AND s.staattnum = a.attnum
WHERE c.relnamespace = 'ralph_team'::regnamespace AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
    AND (a.attstattarget IS DISTINCT FROM 0 OR s.starelid IS NOT NULL)
