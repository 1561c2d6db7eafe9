-- +goose Up
-- Captures of requests. until is when one ends by itself, stopped when a user has ended it, deleted makes the row a tombstone until
-- its objects are deleted in the cluster, ended is when nothing follows. revision grows with each save of the replica that records.
CREATE TABLE captures (
  organisation TEXT   NOT NULL,
  name         TEXT   NOT NULL,
  cluster      TEXT   NOT NULL,
  sandbox      TEXT   NOT NULL,
  workload     TEXT   NOT NULL,
  created      BIGINT NOT NULL,
  until        BIGINT NOT NULL,
  stopped      BIGINT NOT NULL,
  deleted      BIGINT NOT NULL,
  ended        BIGINT NOT NULL,
  revision     BIGINT NOT NULL,
  segments     BIGINT NOT NULL,
  requests     BIGINT NOT NULL,
  bytes        BIGINT NOT NULL,
  message      TEXT   NOT NULL,
  author       TEXT   NOT NULL,
  progress     TEXT   NOT NULL,
  PRIMARY KEY (organisation, name)
);
CREATE INDEX captures_by_cluster ON captures (organisation, cluster, ended);
-- Their files, which are at the place of artifacts, in the order in which they were read.
CREATE TABLE capture_segments (
  organisation TEXT   NOT NULL,
  capture      TEXT   NOT NULL,
  number       BIGINT NOT NULL,
  file         TEXT   NOT NULL,
  requests     BIGINT NOT NULL,
  bytes        BIGINT NOT NULL,
  PRIMARY KEY (organisation, capture, number)
);
