// Command envoy-path prints the path of an Envoy binary that may be run, and
// fetches it first when the machine has none.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/tools/envoy"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "envoy-path:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path, err := envoy.Find(ctx)
	if err != nil {
		return err
	}
	fmt.Println(path)
	return nil
}
