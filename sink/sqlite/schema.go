package sqlite

// applicationID marks the file as keyfold's in SQLite's header ("kfld").
const applicationID = 0x6b666c64

// migrations are the file's, never changed once released.
//
// The indexes keep counting off the wide rows of their tables. Neither column
// changes when a profile is written, so they cost an update nothing.
var migrations = []string{`
CREATE TABLE settings (
	one             INTEGER PRIMARY KEY CHECK (one = 1),
	dimension_count INTEGER NOT NULL,
	history         TEXT    NOT NULL,
	embedding_model TEXT    NOT NULL
) STRICT;

-- A tombstone has user_id, version and erased_at, and NULL elsewhere.
CREATE TABLE user_embeddings (
	user_id         INTEGER PRIMARY KEY,
	version         INTEGER NOT NULL,
	embedding       BLOB,    -- float64, little-endian
	dimension_count INTEGER,
	mass            REAL,
	history         TEXT,
	embedding_model TEXT,
	last_updated    INTEGER, -- this and all times: Unix milliseconds
	last_event_type TEXT,
	last_message_id TEXT,
	event_count     INTEGER,
	created_at      INTEGER,
	updated_at      INTEGER,
	applied         BLOB,    -- ids of folded events; see profile.Applied
	applied_floor   INTEGER,
	erased_at       INTEGER,
	CHECK (erased_at IS NOT NULL OR
		embedding IS NOT NULL AND length(embedding) = 8 * dimension_count)
) STRICT;

CREATE INDEX user_embeddings_erased_at ON user_embeddings (erased_at);

CREATE TABLE product_embeddings (
	product_id      INTEGER PRIMARY KEY,
	embedding       BLOB    NOT NULL, -- float32, little-endian
	dimension_count INTEGER NOT NULL,
	product_name    TEXT    NOT NULL,
	category        TEXT    NOT NULL,
	embedding_model TEXT    NOT NULL, -- '' is the configured one
	created_at      INTEGER NOT NULL,
	updated_at      INTEGER NOT NULL,
	CHECK (length(embedding) = 4 * dimension_count)
) STRICT;

CREATE INDEX product_embeddings_model ON product_embeddings (embedding_model);
`, `
-- The second vector, of a shorter half-life. 0: profiles have none.
ALTER TABLE settings ADD COLUMN short_half_life INTEGER NOT NULL DEFAULT 0; -- seconds
ALTER TABLE user_embeddings ADD COLUMN embedding_short BLOB -- float64, little-endian
	CHECK (embedding_short IS NULL OR length(embedding_short) = 8 * dimension_count);
ALTER TABLE user_embeddings ADD COLUMN mass_short REAL;
ALTER TABLE user_embeddings ADD COLUMN short_half_life INTEGER; -- seconds
`, `
ALTER TABLE user_embeddings ADD COLUMN stream_marks BLOB; -- see profile.Marks
`, `
-- Lists the catalogue with its times and reads no vector.
CREATE INDEX product_embeddings_updated_at ON product_embeddings (updated_at);
`}
