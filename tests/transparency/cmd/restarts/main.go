// Command restarts counts the requests that fail while workloads are restarted, on a real
// cluster, with a sidecar and without (package restarts). It ends with one line for each
// figure, and fails only when it cannot count.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"

	"switchyard.dev/tests/transparency/restarts"
	"switchyard.dev/tools/demo"
)

func main() {
	code, err := run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "restarts:", err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context) (int, error) {
	if !demo.Inside() {
		return demo.RunInside(ctx, ".")
	}
	times := flag.Int("times", 5, "how often each application is restarted, without a key and with one")
	only := flag.String("only", "", "one application: drains, stops or lingers; default all")
	flag.Parse()
	apps := slices.DeleteFunc(restarts.Apps(), func(a restarts.App) bool { return *only != "" && a.Name != *only })
	return 0, restarts.Run(ctx, os.Stdout, apps, *times)
}
