// Command istiod-path prints the path of istiod, and compiles
// it first when that was not done yet. It is run in the root of the repository.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/tools/istio"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "istiod-path:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	i, err := istio.Find(ctx, ".")
	if err != nil {
		return err
	}
	fmt.Println(i.Istiod)
	return nil
}
