-- +goose Up
-- Times are nanoseconds since 1970, 0 where there is none. Digests are hexadecimal. Values in JSON
-- are text, so that both databases have the same columns.
CREATE TABLE organisations (
  name         TEXT   NOT NULL PRIMARY KEY,
  display_name TEXT   NOT NULL,
  created      BIGINT NOT NULL,
  generation   BIGINT NOT NULL
);
CREATE TABLE users (
  id           TEXT   NOT NULL PRIMARY KEY,
  organisation TEXT   NOT NULL,
  subject      TEXT   NOT NULL,
  email        TEXT   NOT NULL,
  first_name   TEXT   NOT NULL,
  last_name    TEXT   NOT NULL,
  avatar       TEXT   NOT NULL,
  role         TEXT   NOT NULL,
  created      BIGINT NOT NULL,
  updated      BIGINT NOT NULL
);
CREATE UNIQUE INDEX users_by_subject ON users (organisation, subject) WHERE subject <> '';
CREATE TABLE service_accounts (
  organisation TEXT   NOT NULL,
  name         TEXT   NOT NULL,
  description  TEXT   NOT NULL,
  role         TEXT   NOT NULL,
  created      BIGINT NOT NULL,
  updated      BIGINT NOT NULL,
  PRIMARY KEY (organisation, name)
);
-- API keys and cluster tokens. bound is the UID of the cluster that a token is bound to.
CREATE TABLE credentials (
  digest       TEXT   NOT NULL PRIMARY KEY,
  id           TEXT   NOT NULL UNIQUE,
  organisation TEXT   NOT NULL,
  owner_kind   TEXT   NOT NULL,
  owner        TEXT   NOT NULL,
  description  TEXT   NOT NULL,
  masked       TEXT   NOT NULL,
  created      BIGINT NOT NULL,
  used         BIGINT NOT NULL,
  used_from    TEXT   NOT NULL,
  bound        TEXT   NOT NULL
);
CREATE INDEX credentials_by_owner ON credentials (organisation, owner_kind, owner);
CREATE TABLE device_logins (
  device       TEXT   NOT NULL PRIMARY KEY,
  user_code    TEXT   NOT NULL UNIQUE,
  created      BIGINT NOT NULL,
  expires      BIGINT NOT NULL,
  polled       BIGINT NOT NULL,
  organisation TEXT   NOT NULL,
  user_id      TEXT   NOT NULL,
  denied       BIGINT NOT NULL
);
CREATE TABLE logins (
  access       TEXT   NOT NULL PRIMARY KEY,
  refresh      TEXT   NOT NULL UNIQUE,
  organisation TEXT   NOT NULL,
  user_id      TEXT   NOT NULL,
  created      BIGINT NOT NULL,
  expires      BIGINT NOT NULL,
  refresh_by   BIGINT NOT NULL
);
CREATE INDEX logins_by_user ON logins (organisation, user_id);
CREATE TABLE clusters (
  organisation     TEXT   NOT NULL,
  name             TEXT   NOT NULL,
  created          BIGINT NOT NULL,
  operator_version TEXT   NOT NULL,
  config           TEXT   NOT NULL,
  PRIMARY KEY (organisation, name)
);
-- The sessions of agents. A row outlives its cluster, because epochs only grow.
CREATE TABLE agent_sessions (
  organisation TEXT   NOT NULL,
  cluster      TEXT   NOT NULL,
  epoch        BIGINT NOT NULL,
  instance     TEXT   NOT NULL,
  replica      TEXT   NOT NULL,
  until        BIGINT NOT NULL,
  superseded   TEXT   NOT NULL,
  PRIMARY KEY (organisation, cluster)
);
-- Sandboxes and route groups, which share names. A row with deleted is a tombstone.
CREATE TABLE objects (
  organisation TEXT   NOT NULL,
  name         TEXT   NOT NULL,
  kind         TEXT   NOT NULL,
  cluster      TEXT   NOT NULL,
  routing_key  TEXT   NOT NULL UNIQUE,
  spec         TEXT   NOT NULL,
  plugins      TEXT   NOT NULL,
  generation   BIGINT NOT NULL,
  created      BIGINT NOT NULL,
  updated      BIGINT NOT NULL,
  deleted      BIGINT NOT NULL,
  force        BIGINT NOT NULL,
  observed     BIGINT NOT NULL,
  status       TEXT   NOT NULL,
  PRIMARY KEY (organisation, name)
);
CREATE INDEX objects_by_cluster ON objects (organisation, cluster);
-- All routing keys that were ever given to an object. No row is ever deleted.
CREATE TABLE routing_keys (
  routing_key  TEXT NOT NULL PRIMARY KEY,
  organisation TEXT NOT NULL,
  name         TEXT NOT NULL
);
CREATE TABLE plugins (
  organisation TEXT   NOT NULL,
  name         TEXT   NOT NULL,
  version      TEXT   NOT NULL,
  spec         TEXT   NOT NULL,
  created      BIGINT NOT NULL,
  updated      BIGINT NOT NULL,
  PRIMARY KEY (organisation, name, version)
);
CREATE TABLE secrets (
  organisation TEXT   NOT NULL,
  name         TEXT   NOT NULL,
  description  TEXT   NOT NULL,
  key_id       TEXT   NOT NULL,
  sealed       TEXT   NOT NULL,
  created      BIGINT NOT NULL,
  updated      BIGINT NOT NULL,
  PRIMARY KEY (organisation, name)
);
CREATE TABLE devboxes (
  organisation    TEXT   NOT NULL,
  id              TEXT   NOT NULL,
  user_id         TEXT   NOT NULL,
  metadata        TEXT   NOT NULL,
  created         BIGINT NOT NULL,
  updated         BIGINT NOT NULL,
  session         TEXT   NOT NULL,
  session_by      TEXT   NOT NULL,
  session_created BIGINT NOT NULL,
  session_renewed BIGINT NOT NULL,
  session_until   BIGINT NOT NULL,
  PRIMARY KEY (organisation, id)
);
CREATE TABLE events (
  id           TEXT   NOT NULL PRIMARY KEY,
  organisation TEXT   NOT NULL,
  at           BIGINT NOT NULL,
  type         TEXT   NOT NULL,
  by_kind      TEXT   NOT NULL,
  by_id        TEXT   NOT NULL,
  by_name      TEXT   NOT NULL,
  method       TEXT   NOT NULL,
  masked       TEXT   NOT NULL,
  data         TEXT   NOT NULL
);
CREATE INDEX events_by_time ON events (organisation, at);
