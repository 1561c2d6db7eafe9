package workflows

import (
	"context"

	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/sweep/workflows/ledger"
)

// Image is the image with a shell and psql for the containers of units.
const Image = imageMain

// Operate runs the operator with the IO context server, a node for units and the collector of garbage, without any
// fault, until end is called.
func (w *World) Operate(ctx context.Context) (end func(), err error) {
	_, end, err = w.start(ctx, Death{})
	return end, err
}

// Server returns the API server.
func (w *World) Server() *apiserver.Server { return w.api }

// Ledger returns the PostgreSQL server outside of the cluster.
func (w *World) Ledger() *ledger.Ledger { return w.ledger }
