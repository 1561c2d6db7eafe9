-- +goose Up
-- Runner groups. A row with deleted is a tombstone.
CREATE TABLE runner_groups (
  organisation TEXT   NOT NULL,
  name         TEXT   NOT NULL,
  cluster      TEXT   NOT NULL,
  namespace    TEXT   NOT NULL,
  spec         TEXT   NOT NULL,
  generation   BIGINT NOT NULL,
  created      BIGINT NOT NULL,
  updated      BIGINT NOT NULL,
  deleted      BIGINT NOT NULL,
  author       TEXT   NOT NULL,
  status       TEXT   NOT NULL,
  PRIMARY KEY (organisation, name)
);
-- Jobs. sequence is the place in the queue; attempted is when the object was last written to the cluster, 0: never;
-- attempt is the state of the only attempt, of which phase and finished are copies.
CREATE TABLE jobs (
  organisation  TEXT   NOT NULL,
  name          TEXT   NOT NULL,
  cluster       TEXT   NOT NULL,
  namespace     TEXT   NOT NULL,
  runner_group  TEXT   NOT NULL,
  sandbox       TEXT   NOT NULL,
  routing_key   TEXT   NOT NULL,
  spec          TEXT   NOT NULL,
  sequence      BIGINT NOT NULL,
  generation    BIGINT NOT NULL,
  created       BIGINT NOT NULL,
  canceled      BIGINT NOT NULL,
  deleted       BIGINT NOT NULL,
  group_deleted BIGINT NOT NULL,
  attempted     BIGINT NOT NULL,
  finished      BIGINT NOT NULL,
  phase         TEXT   NOT NULL,
  author        TEXT   NOT NULL,
  attempt       TEXT   NOT NULL,
  PRIMARY KEY (organisation, name)
);
CREATE INDEX jobs_by_group ON jobs (organisation, runner_group, phase, sequence);
CREATE INDEX jobs_by_cluster ON jobs (organisation, cluster);
CREATE INDEX jobs_by_sandbox ON jobs (organisation, sandbox);
