CREATE TABLE sdk_sessions (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        content_session_id TEXT NOT NULL,
        memory_session_id TEXT UNIQUE,
        project TEXT NOT NULL,
        platform_source TEXT NOT NULL DEFAULT 'claude',
        user_prompt TEXT,
        started_at TEXT NOT NULL,
        started_at_epoch INTEGER NOT NULL,
        completed_at TEXT,
        completed_at_epoch INTEGER,
        status TEXT CHECK(status IN ('active', 'completed', 'failed')) NOT NULL DEFAULT 'active'
      , worker_port INTEGER, prompt_counter INTEGER DEFAULT 0, custom_title TEXT, observed_model TEXT, observed_billing TEXT);
INSERT INTO sdk_sessions VALUES (1, 'content-1', 'memory-1', 'shop', 'claude', 'Rotate the tokens of the shop', '2026-11-17T13:38:11.834Z', 1794922691834, NULL, NULL, 'active', NULL, 0, NULL, NULL, NULL);
CREATE TABLE "observations" (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        memory_session_id TEXT NOT NULL,
        project TEXT NOT NULL,
        text TEXT,
        type TEXT NOT NULL,
        title TEXT,
        subtitle TEXT,
        facts TEXT,
        narrative TEXT,
        concepts TEXT,
        files_read TEXT,
        files_modified TEXT,
        prompt_number INTEGER,
        created_at TEXT NOT NULL,
        created_at_epoch INTEGER NOT NULL, discovery_tokens INTEGER DEFAULT 0, content_hash TEXT, generated_by_model TEXT, relevance_count INTEGER DEFAULT 0, merged_into_project TEXT, agent_type TEXT, agent_id TEXT, metadata TEXT, synced_at INTEGER, origin_device_id TEXT, origin_local_id TEXT, sync_rev TEXT NOT NULL DEFAULT '1',
        FOREIGN KEY(memory_session_id) REFERENCES sdk_sessions(memory_session_id) ON DELETE CASCADE ON UPDATE CASCADE
      );
INSERT INTO observations VALUES (1, 'memory-1', 'shop', NULL, 'decision', 'Sessions are stateless', 'JWT in place of server sessions', '["Tokens live for 15 minutes","Refresh tokens are kept in Redis"]', 'The shop signs a JWT for each login, because two servers share no memory.', '["why-it-exists","trade-off"]', '["src/auth.ts"]', '["src/session.ts"]', 1, '2026-11-17T13:38:11.858Z', 1794922691858, 0, '2684a4278d3925fe', NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '1');
INSERT INTO observations VALUES (2, 'memory-1', 'shop', NULL, 'bugfix', 'Refresh failed after midnight', NULL, '["The clock was read in local time"]', NULL, '["gotcha"]', '[]', '["src/clock.ts"]', 2, '2026-11-17T13:38:11.859Z', 1794922691859, 0, '33ec138bb734e8e7', NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '1');
INSERT INTO observations VALUES (3, 'memory-1', 'shop/rotation', NULL, 'gotcha', 'The worktree needs its own key', '', '["Keys are read from the folder above"]', '', '[]', '[]', '[]', 2, '2026-11-17T13:38:11.907Z', 1794922691907, 0, 'cf0ce0a6997796bc', NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '1');
INSERT INTO observations VALUES (4, 'memory-1', 'other', NULL, 'discovery', 'Another project', '', '[]', 'Nothing for the shop.', '[]', '[]', '[]', 2, '2026-11-17T13:38:11.908Z', 1794922691908, 0, '5f1dfe2a83035528', NULL, 0, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '1');
CREATE TABLE "session_summaries" (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        memory_session_id TEXT NOT NULL,
        project TEXT NOT NULL,
        request TEXT,
        investigated TEXT,
        learned TEXT,
        completed TEXT,
        next_steps TEXT,
        files_read TEXT,
        files_edited TEXT,
        notes TEXT,
        prompt_number INTEGER,
        created_at TEXT NOT NULL,
        created_at_epoch INTEGER NOT NULL, discovery_tokens INTEGER DEFAULT 0, merged_into_project TEXT, synced_at INTEGER, origin_device_id TEXT, origin_local_id TEXT, sync_rev TEXT NOT NULL DEFAULT '1',
        FOREIGN KEY(memory_session_id) REFERENCES sdk_sessions(memory_session_id) ON DELETE CASCADE ON UPDATE CASCADE
      );
INSERT INTO session_summaries VALUES (1, 'memory-1', 'shop', 'Rotate the tokens', 'auth.ts', 'Refresh tokens must be rotated together with the key.', 'Rotation runs nightly.', 'Alert on failures.', '[]', '[]', '', 2, '2026-11-17T13:38:11.908Z', 1794922691908, 0, NULL, NULL, NULL, NULL, '1');
