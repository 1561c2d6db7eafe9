// Command consumer is a consumer of messages as users write them: nobody sends requests to
// it, so it has neither a Service nor a sidecar. Each message comes to every variant of it,
// the baseline and its forks; who processes it is decided by the routing key in the
// message's header baggage and by what the route server says of that key. It answers each
// message with who it is and whether it processed it, for the tests on a real cluster.
//
//	BROKER                  the NATS server, as host:port
//	SUBJECT                 the subject of the messages
//	ROUTESERVER             the REST API of the route server, as host:port
//	SIGNADOT_BASELINE_KIND, SIGNADOT_BASELINE_NAMESPACE, SIGNADOT_BASELINE_NAME
//	                        the workload that it is a variant of
//	SIGNADOT_SANDBOX_NAME   the sandbox whose fork it is; empty: the baseline
//	VERSION                 what it says of itself
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		slog.Error("cannot consume", "error", err)
		os.Exit(1)
	}
}
