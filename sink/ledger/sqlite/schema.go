package sqlite

import "strings"

// applicationID marks the file as a ledger in SQLite's header ("kfnt").
const applicationID = 0x6b666e74

// migrations are the file's, never changed once released. Times are Unix
// milliseconds, UUIDs their 16 bytes, enums by their names in JSON; absent values
// are NULL.
var migrations = []string{`
CREATE TABLE notify_users (
	user_id    TEXT    NOT NULL PRIMARY KEY CHECK (length(user_id) BETWEEN 1 AND 128),
	version    INTEGER NOT NULL,
	state      BLOB    NOT NULL, -- see notify.State; empty before the first decision
	decided_at INTEGER NOT NULL,
	erased_at  INTEGER
) STRICT;

CREATE TABLE notify_preferences (
	user_id     TEXT NOT NULL PRIMARY KEY,
	preferences TEXT NOT NULL
) STRICT;

CREATE TABLE notify_event_keys (
	event_id    BLOB    NOT NULL PRIMARY KEY CHECK (length(event_id) = 16),
	user_id     TEXT    NOT NULL,
	turn        INTEGER NOT NULL CHECK (turn BETWEEN 0 AND 2),
	decision_id BLOB    NOT NULL,
	digest_id   BLOB,
	outcome     TEXT    NOT NULL,
	dispatched  INTEGER NOT NULL,
	decided_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX notify_event_keys_undispatched ON notify_event_keys (decided_at) WHERE outcome = 'NOW' AND NOT dispatched;
CREATE INDEX notify_event_keys_digest ON notify_event_keys (digest_id) WHERE digest_id IS NOT NULL;

-- One row per turn of an event. Of an erased user, user_id, print, digest_key, event
-- and facts are NULL.
CREATE TABLE notify_decisions (
	decision_id     BLOB    NOT NULL PRIMARY KEY CHECK (length(decision_id) = 16),
	event_id        BLOB    NOT NULL,
	user_id         TEXT,
	seq             INTEGER NOT NULL, -- the user's version that this decision made
	event_type      TEXT    NOT NULL,
	source          TEXT    NOT NULL,
	print           BLOB,             -- see similar.Print
	outcome         TEXT    NOT NULL,
	reasons         TEXT    NOT NULL,
	matched_rule_id BLOB,
	rule_version    TEXT    NOT NULL,
	turn            INTEGER NOT NULL,
	decided_at      INTEGER NOT NULL,
	defer_until     INTEGER,
	spent           BLOB,             -- ids of rules, one after another
	digest_key      TEXT,
	slot            INTEGER,
	digest_id       BLOB,
	duplicate_of    BLOB,
	channels        TEXT,
	score           REAL,
	event           TEXT,
	facts           TEXT,
	CHECK ((outcome = 'LATER') = (defer_until IS NOT NULL))
) STRICT;

CREATE UNIQUE INDEX notify_decisions_user ON notify_decisions (user_id, seq);
CREATE INDEX notify_decisions_event ON notify_decisions (event_id);

CREATE TABLE notify_deferrals (
	event_id   BLOB    NOT NULL PRIMARY KEY,
	user_id    TEXT    NOT NULL,
	turn       INTEGER NOT NULL, -- the next one
	due_at     INTEGER NOT NULL,
	spent      BLOB,
	digest_key TEXT,
	slot       INTEGER,
	event      TEXT    NOT NULL,
	next_at    INTEGER NOT NULL -- due_at, or the end of the lease
) STRICT;

CREATE INDEX notify_deferrals_next ON notify_deferrals (next_at);
CREATE INDEX notify_deferrals_group ON notify_deferrals (user_id, digest_key, due_at);
`, `
ALTER TABLE notify_decisions ADD COLUMN delivery_status TEXT;     -- NULL: of a LATER
ALTER TABLE notify_decisions ADD COLUMN delivered_at INTEGER;     -- when the status was reached, by the sender's clock
ALTER TABLE notify_decisions ADD COLUMN delivery_channel TEXT;
ALTER TABLE notify_decisions ADD COLUMN delivery_error TEXT;
UPDATE notify_decisions SET delivery_status = CASE outcome WHEN 'NOW' THEN 'PENDING' WHEN 'NEVER' THEN 'SUPPRESSED' END;
CREATE INDEX notify_decisions_pending ON notify_decisions (decided_at) WHERE delivery_status = 'PENDING';
`, `
-- An erased user is kept as a tombstone, whose name is longer than any id.
ALTER TABLE notify_users RENAME TO notify_users_before;
CREATE TABLE notify_users (
	user_id    TEXT    NOT NULL PRIMARY KEY CHECK (erased_at IS NOT NULL OR length(user_id) BETWEEN 1 AND 128),
	version    INTEGER NOT NULL,
	state      BLOB    NOT NULL, -- see notify.State; empty before the first decision
	decided_at INTEGER NOT NULL,
	erased_at  INTEGER
) STRICT;
INSERT INTO notify_users SELECT user_id, version, state, decided_at, erased_at FROM notify_users_before;
DROP TABLE notify_users_before;
`, `
-- What users did with what was delivered, each the first time.
ALTER TABLE notify_decisions ADD COLUMN opened_at INTEGER;
ALTER TABLE notify_decisions ADD COLUMN clicked_at INTEGER;
ALTER TABLE notify_decisions ADD COLUMN dismissed_at INTEGER;

-- How users respond to what was delivered, see notify.Responses.
CREATE TABLE notify_responses (
	user_id   TEXT NOT NULL PRIMARY KEY,
	responses TEXT NOT NULL
) STRICT;
`, `
ALTER TABLE notify_preferences ADD COLUMN version INTEGER NOT NULL DEFAULT 1; -- rises with each change
`, `
-- Ids that stand for another user, since a merge. Such a user's row of notify_users says so too.
CREATE TABLE notify_aliases (
	number    INTEGER NOT NULL PRIMARY KEY, -- in the order of the merges
	alias     TEXT    NOT NULL UNIQUE,
	user_id   TEXT    NOT NULL,
	merged_at INTEGER NOT NULL
) STRICT;
CREATE INDEX notify_aliases_user ON notify_aliases (user_id);
`}

// SQL returns the statements that make the tables in an empty file.
func SQL() string { return strings.TrimLeft(strings.Join(migrations, ""), "\n") }
