// Package linearizable checks that a fresh read of a route server is linearizable: that it behaves
// as if all clients read and wrote one table in one place, whatever fails in between. Porcupine, a
// checker of histories, decides.
//
// One process is the event bus, with a real store on disk. The other is the test: a leader
// publishes facts through a publisher, with several concurrent controllers, one at a time for each
// object; a former leader continues to write; and two route servers (views) follow the log, each
// over a separate connection. Each baseline and routing key is a register: a write is an object
// that changes and a fact that records it; a read asks the log for its tip, waits until the view
// has reached it (view.WaitFor), and reads the rule.
//
// In the meantime the bus is killed and restarted, or paused; connections are cut; the log begins again,
// or is lost with its disk, and is filled again from the objects. None of this may affect the
// results of reads, only their latency. A write without a response can take effect at any later
// time, or never.
//
// It also checks versions: a table at a position is the same (by its hash) on every server, and the
// same as the events up to there produce when they are read one by one.
//
// The check itself is tested too: it must fail for reads that do not wait, and for a view that
// misses a fact.
//
// go test ./tests/linearizable -args -run-for=5m runs it for longer.
package linearizable
