-- +goose Up
-- Smart Tests.
CREATE TABLE tests (
  organisation TEXT   NOT NULL,
  name         TEXT   NOT NULL,
  spec         TEXT   NOT NULL,
  generation   BIGINT NOT NULL,
  created      BIGINT NOT NULL,
  updated      BIGINT NOT NULL,
  PRIMARY KEY (organisation, name)
);
-- Their executions. sequence is the place in lists; of status, phase and finished are copies; the numbers are those of results.
CREATE TABLE test_executions (
  organisation TEXT   NOT NULL,
  id           TEXT   NOT NULL,
  sequence     BIGINT NOT NULL,
  cluster      TEXT   NOT NULL,
  test         TEXT   NOT NULL,
  run          TEXT   NOT NULL,
  sandbox      TEXT   NOT NULL,
  routing_key  TEXT   NOT NULL,
  revision     BIGINT NOT NULL,
  trigger_id   TEXT   NOT NULL,
  script       TEXT   NOT NULL,
  timeout      BIGINT NOT NULL,
  created      BIGINT NOT NULL,
  canceled     BIGINT NOT NULL,
  finished     BIGINT NOT NULL,
  phase        TEXT   NOT NULL,
  author       TEXT   NOT NULL,
  spec         TEXT   NOT NULL,
  status       TEXT   NOT NULL,
  results      TEXT   NOT NULL,
  passed       BIGINT NOT NULL,
  failed       BIGINT NOT NULL,
  green        BIGINT NOT NULL,
  yellow       BIGINT NOT NULL,
  red          BIGINT NOT NULL,
  PRIMARY KEY (organisation, id)
);
CREATE INDEX test_executions_by_sequence ON test_executions (organisation, sequence);
CREATE INDEX test_executions_by_run ON test_executions (organisation, run);
CREATE INDEX test_executions_by_cluster ON test_executions (organisation, cluster, phase);
CREATE INDEX test_executions_by_key ON test_executions (organisation, routing_key);
