package unit

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"switchyard.dev/workflows/iocontext"
)

// Container is the main function of a container that asks the server. It calls work with a
// context that ends at SIGTERM, and writes the termination message if work returns an ending.
func Container(name string, work func(context.Context, Server) *iocontext.Ending) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	var ending *iocontext.Ending
	if s, err := FromEnv(os.Getenv); err != nil {
		ending = failed(iocontext.ServerUnreachable, "%v", err)
	} else {
		s.Log = func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, "%s %s: %s\n", time.Now().UTC().Format(time.RFC3339), name, fmt.Sprintf(format, args...))
		}
		if ending = work(ctx, s); ending == nil {
			return
		}
	}
	fmt.Fprintf(os.Stderr, "%s: %s: %s\n", name, ending.Reason, ending.Message)
	if err := Ended(TerminationPath, *ending); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
	}
	os.Exit(1)
}
