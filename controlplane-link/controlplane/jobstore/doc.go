// Package jobstore keeps runner groups and jobs in the tables of package store, with its contract for writes, observations and
// watchers. A job has at most four writes: its submission, the attempt to write its object, that it runs, and its end.
package jobstore
