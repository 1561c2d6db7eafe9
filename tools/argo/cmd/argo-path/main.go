// Command argo-path prints the path of the controller of Argo Rollouts, and compiles
// it first when that was not done yet. It is run in the root of the repository.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/tools/argo"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "argo-path:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a, err := argo.Find(ctx, ".")
	if err != nil {
		return err
	}
	fmt.Println(a.Controller)
	return nil
}
