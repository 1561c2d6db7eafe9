// Package wire stands between a manager and what it works with, the API server and
// the routing log, and lets things go wrong there as they do in life:
//
//   - the process dies at its n-th write, which was done, was not done, or was done
//     without an answer (Faults.DieAt);
//   - what it watches comes late, each kind by itself (Faults.Delay);
//   - what it lists when it starts is older than what was already true
//     (Faults.Snapshot), as from an API server that lags behind;
//   - watches end with 410 Gone, and lists whose next page has expired
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
