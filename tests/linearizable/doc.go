// Package linearizable checks that a fresh read of a route server is
// linearizable: that it behaves as if everybody read and wrote one table in one
// place, whatever breaks in between. Porcupine, a checker of histories, decides.
//
// One process is the event bus, with a real store on disk. In another, the test:
// a leader states facts through a publisher, several controllers at once, each
// object by one of them at a time; a former leader goes on writing; and two
// route servers (views) follow the log, each over a connection of its own. Each
// baseline and routing key is a register: a write is an object that changes and
// whose fact is recorded; a read asks the log for its tip, waits until the view
// has reached it (view.WaitFor), and looks the rule up.
//
// Meanwhile the bus is killed and started again, or stands still; connections are
// cut; the log begins again, or is lost with its disk, and is filled anew from
// the objects. None of this may show in what is read, only in how long it takes.
// A write whose end nobody heard may happen at any time from then on, or never.
//
// Beside it, versions: a table at a position is the same (by its hash) whoever
// serves it, and the same as the events up to there give when they are read one
// by one.
//
// That the check finds what it looks for is tested too: reads that do not wait,
// and a view that misses a fact, must fail it.
//
// go test ./tests/linearizable -args -run-for=5m runs it for longer.
package linearizable
