package main

import (
	"errors"
	"fmt"
	"time"

	"switchyard.dev/tests/process"
)

// measured is the result of one load.
type measured struct {
	Load
	// storm is the time from the first connection until the last stream had its
	// first routes.
	storm time.Duration
	// last and each are those of Outcome.
	last, each []time.Duration
	// perChange is the number of KiB written to all connections, and responses the number of
	// responses, for each change.
	perChange, responses float64
	// again is how many streams were cut off and came again.
	again int64
	// memory is the maximum of the server's process, and heap its heap at the end, in MiB.
	memory, heap float64
	// server, clients and others are the seconds that each computed in a second.
	server, clients, others float64
}

// measure measures one load, in two new processes.
func measure(l Load) (m measured, err error) {
	m.Load = l
	at, err := process.Start(server)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, at.Close()) }()
	from, err := process.Start(clients)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()

	var served Served
	if err := at.Call("Serve", l, &served); err != nil {
		return m, err
	}
	if err := from.Call("Connect", Connecting{l, served}, &m.storm); err != nil {
		return m, err
	}
	if err := at.Call("Joined", struct{}{}, nil); err != nil {
		return m, err
	}
	return m, m.change(at, from)
}

// change makes the changes and takes the figures.
func (m *measured) change(server, clients *process.Process) error {
	busy := process.Busy(server.ID(), clients.ID())
	var o Outcome
	if err := server.Call("Change", struct{}{}, &o); err != nil {
		return err
	}
	each, others := busy()
	m.server, m.clients, m.others = each[0], each[1], others
	var had Had
	if err := clients.Call("Await", o.Due, &had); err != nil {
		return err
	}
	m.last, m.each = o.Last, o.Each
	m.again = had.Again
	m.perChange = float64(o.Bytes) / 1024 / float64(m.changes())
	m.responses = float64(had.Responses-int64(m.Streams)) / float64(m.changes())
	var heap uint64
	if err := server.Call("Heap", struct{}{}, &heap); err != nil {
		return err
	}
	m.heap = float64(heap) / (1 << 20)
	var err error
	if _, m.memory, err = server.Memory(); err != nil {
		return err
	}
	return clients.Call("Close", struct{}{}, nil)
}

// String returns a readable name of the load.
func (l Load) String() string {
	where := fmt.Sprintf("%d workloads", l.Workloads)
	if l.Workloads == 1 {
		where = "one workload"
	}
	return fmt.Sprintf("%s, %d streams, %s", where, l.Streams, l.Form)
}
