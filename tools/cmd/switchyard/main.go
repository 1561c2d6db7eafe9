// Command switchyard is the command line (package tools/switchyard). Installed as kubectl-switchyard it
// is a kubectl plugin: kubectl switchyard.
package main

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/klog/v2"

	"switchyard.dev/tools/switchyard"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/command/interrupt"
)

func main() {
	// Libraries must not write between the lines of an answer.
	klog.SetSlogLogger(slog.New(slog.DiscardHandler))
	os.Exit(run(os.Args))
}

func run(args []string) int {
	ctx, stop := interrupt.Notify(context.Background())
	defer stop()
	return int(switchyard.Main(ctx, command.Config{
		Name: called(args[0]), In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Terminal: isTerminal(os.Stdout),
	}, args[1:]))
}

// called returns the name of the program in its help.
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
