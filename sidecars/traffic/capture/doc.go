// Package capture copies the exchanges of connections for captures: it keeps the beginning of bodies, counts and hashes the
// rest, removes headers and JSON values, and hands on each exchange that is complete.
//
// It never waits, and keeps at most record.InFlight bytes in all. An exchange beyond that is lost and counted; its connection
// is not affected.
package capture
