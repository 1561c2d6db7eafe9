// Command hostile attacks every listener of our programs on a real cluster (package
// listeners), and those of tunnels by port-forwards (package forwarded). It ends with one line for each figure, and fails only when it cannot measure.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"switchyard.dev/tests/hostile/beside"
	"switchyard.dev/tests/hostile/forwarded"
	"switchyard.dev/tests/hostile/listeners"
	"switchyard.dev/tests/process"
	"switchyard.dev/tools/demo"
)

func main() {
	code, err := run(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		code = 1
	}
	os.Exit(code)
}

func run(ctx context.Context) (int, error) {
	switch process.Role() {
	case listeners.Role:
		return 0, process.Answer(&listeners.Crowd{})
	case beside.Role:
		return 0, process.Answer(&beside.Server{})
	}
	if !demo.Inside() {
		return demo.RunInside(ctx, ".")
	}
	var o listeners.Options
	flag.IntVar(&o.Attackers, "attackers", 2000, "connections of attackers at once")
	flag.DurationVar(&o.For, "for", 10*time.Second, "how long honest calls are measured, without the attack and with it")
	flag.DurationVar(&o.Within, "within", 5*time.Second, "how long a listener is attacked before honest calls are measured again")
	flag.IntVar(&o.Random, "random", 10_000, "random inputs to each listener of tunnels")
	only := flag.String("only", "", "only listeners whose name has this in it")
	forwards := flag.Bool("forwarded", false, "only the attacks by port-forwards, and by pods of units")
	flag.Parse()
	ctrllog.SetLogger(logr.Discard())
	utilruntime.ErrorHandlers = nil // each port-forward that ends would be logged
	if !*forwards {
		if err := listeners.Run(ctx, os.Stdout, *only, o); err != nil {
			return 0, err
		}
	}
	return 0, forwarded.Run(ctx, os.Stdout, *only)
}
