-- One portable schema: TEXT and BIGINT columns only. Ids are UUIDv7 text, times epoch milliseconds,
-- digests hex text, and a nullable time stands in place of a flag.

CREATE TABLE users (
    id          TEXT   NOT NULL PRIMARY KEY,
    email       TEXT   NOT NULL UNIQUE,     -- folded; mail goes here, never to what was typed
    created_at  BIGINT NOT NULL,            -- when a registration link was confirmed
    disabled_at BIGINT
);

-- What was asked for, for known and unknown addresses alike; no secret. Once its mail has left, or none is
-- to leave, the address goes and the rest stays for as long as a code may be typed for it.
CREATE TABLE outbox (
    id          TEXT   NOT NULL PRIMARY KEY,
    purpose     TEXT   NOT NULL,            -- log_in, register
    email       TEXT   NOT NULL,            -- folded, as typed; looked up by the worker only; empty when over
    browser     TEXT   NOT NULL,            -- SHA-256 of the asking browser's secret
    inbox       TEXT   NOT NULL,            -- keyed digest of the inbox, for counting typed codes
    agent       TEXT   NOT NULL,            -- a fixed phrase: Firefox on Windows
    return_to   TEXT,
    asked_at    BIGINT NOT NULL,
    deadline_at BIGINT NOT NULL,            -- given up after it
    due_at      BIGINT NOT NULL,            -- the next try, or the end of the lease of one under way
    lease       TEXT,                       -- who is trying; a mark without it changes nothing
    tries       BIGINT NOT NULL,
    held_at     BIGINT,                     -- the daily limit keeps it back since then
    failed_at   BIGINT,                     -- set aside: it can't be sent at all
    code_tries  BIGINT NOT NULL DEFAULT 0   -- how often its browser has typed a code
);

CREATE INDEX outbox_due ON outbox (purpose, due_at) WHERE email <> '';
CREATE INDEX outbox_browser ON outbox (browser);

-- What counts against the daily limit: one row a try that the mail server took, or may have taken.
CREATE TABLE mails_sent (
    id      TEXT   NOT NULL PRIMARY KEY,    -- the mail and its try
    sent_at BIGINT NOT NULL
);

CREATE INDEX mails_sent_at ON mails_sent (sent_at);

-- Rows written for the sake of writing: a lock taken by the first statement of a transaction, and the
-- proof that the database can be written to.
CREATE TABLE marks (
    name TEXT   NOT NULL PRIMARY KEY,       -- daily_limit, ready
    at   BIGINT NOT NULL
);

CREATE TABLE links (
    token_hash   TEXT   NOT NULL PRIMARY KEY, -- SHA-256 of what the mail carries
    outbox_id    TEXT   NOT NULL,           -- the request it answers
    purpose      TEXT   NOT NULL,           -- log_in, register
    email        TEXT   NOT NULL,           -- the account's address, or the one it will have
    browser      TEXT   NOT NULL,           -- the browser that asked
    return_to    TEXT,
    created_at   BIGINT NOT NULL,
    expires_at   BIGINT NOT NULL,
    used_at      BIGINT,                    -- the link itself, or a sibling that was used
    used_browser TEXT,                      -- the browser that used this very link
    code_hash    TEXT   NOT NULL            -- the typed code, keyed by browser and link
);

CREATE INDEX links_email ON links (email);
CREATE INDEX links_outbox ON links (outbox_id);

CREATE TABLE sessions (
    id         TEXT   NOT NULL PRIMARY KEY,
    token_hash TEXT   NOT NULL UNIQUE,      -- SHA-256 of the cookie
    user_id    TEXT   NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    agent      TEXT   NOT NULL,
    created_at BIGINT NOT NULL,
    seen_at    BIGINT NOT NULL,
    expires_at BIGINT NOT NULL              -- the absolute end, whatever is seen
);

CREATE INDEX sessions_user ON sessions (user_id);
CREATE INDEX sessions_expires ON sessions (expires_at);
CREATE INDEX sessions_seen ON sessions (seen_at);

-- Groups of accounts, which Remote-Groups tells to apps.
CREATE TABLE user_groups (
    user_id TEXT NOT NULL REFERENCES users (id) ON DELETE CASCADE,
    name    TEXT NOT NULL,                  -- lower case, no comma
    PRIMARY KEY (user_id, name)
);
