// Command switchyard asks a route server what is routed where, what was, and why.
// Installed as kubectl-switchyard it is a kubectl plugin: kubectl switchyard.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"k8s.io/klog/v2"

	"switchyard.dev/routeserver/cli"
)

func main() {
	klog.SetSlogLogger(silent)
	os.Exit(run(os.Args))
}

func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Main(ctx, cli.Config{
		Name: called(args[0]),
		In:   os.Stdin, Out: os.Stdout, Err: os.Stderr,
		Getenv:   os.Getenv,
		Terminal: isTerminal(os.Stdout),
		Plan:     plan,
		Witness:  witness,
		Keys:     keys,
	}, args[1:])
}

// called gives how the program was called, as its help should say it.
func called(path string) string {
	if strings.HasPrefix(filepath.Base(path), "kubectl-") {
		return "kubectl switchyard"
	}
	return "switchyard"
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
