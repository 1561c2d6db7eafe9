// Package wire is between a manager and the API server and the routing log, and injects faults
// there that occur in practice:
//
//   - the process dies at its n-th write, which was done, was not done, or was done
//     without an answer (Faults.DieAt);
//   - events come late, each kind by itself (Faults.Delay);
//   - the lists at its start are older than the present state
//     (Faults.Snapshot), as from an API server that lags behind;
//   - watches end with 410 Gone, and lists with a next page that has expired
//     (Faults.Expire, Faults.Page);
//   - something else happens right before a write (Faults.Before);
//   - a guard is missing (Faults.Without), to show that a sweep sees that.
//
// A Gate is the way of one process. Wrap goes into its rest.Config, Log around its
// log. Once it is dead, nothing goes through any more in either direction, so what
// is left of the process in this one can do no harm while another one runs.
//
// Users owe a rest.Config with ContentType application/json: events are cut apart by
// lines.
package wire
