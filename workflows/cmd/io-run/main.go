// Command io-run runs the script of a unit in its main container, or with "-- COMMAND ARGUMENT…"
// the command of one without a script. io-init copies it there.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"switchyard.dev/workflows/iocontext/unit"
)

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	m := unit.Main{Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr, Signals: signals}
	if len(os.Args) > 1 && os.Args[1] == "--" {
		m.Command = os.Args[2:]
	}
	ending := m.Run()
	if ending.Reason != "" {
		fmt.Fprintf(os.Stderr, "io-run: %s: %s\n", ending.Reason, ending.Message)
		if err := unit.Ended(unit.TerminationPath, ending); err != nil {
			fmt.Fprintln(os.Stderr, "io-run:", err)
		}
	}
	os.Exit(ending.ExitCode)
}
