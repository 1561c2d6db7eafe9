// Command apps-path prints where the applications for tests are, and makes those ready
// that are not yet. It is run in the root of the repository.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/tools/apps"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "apps-path:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a, err := apps.Find(ctx, ".")
	if err != nil {
		return err
	}
	fmt.Println(a.Compiled)
	fmt.Println(a.Unpacked)
	return nil
}
