// Command job-executor runs the scripts of jobs in the main container of a runner's pod:
//
//	job-executor install [DIR]   copy this program into the volume DIR (/signadot/job) that the containers share
//	job-executor serve [DIR]     run executions, as process 1 of the main container
//
// DIR can also be the path of the program there.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"switchyard.dev/workflows/jobexec/executor"
	"switchyard.dev/workflows/jobexec/socket"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "job-executor:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	dir := socket.Root
	if len(args) > 1 {
		dir = strings.TrimSuffix(args[1], strings.TrimPrefix(socket.Program, socket.Root))
	}
	switch {
	case len(args) > 0 && args[0] == "install":
		self, err := os.Executable()
		if err != nil {
			return err
		}
		return executor.Install(dir, self)
	case len(args) > 0 && args[0] == "serve":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
		defer stop()
		return executor.Serve(ctx, dir, os.Environ(), func(format string, args ...any) {
			fmt.Fprintf(os.Stderr, "%s job-executor: %s\n", time.Now().UTC().Format(time.RFC3339), fmt.Sprintf(format, args...))
		})
	}
	return fmt.Errorf("usage: job-executor install|serve [DIR]")
}
