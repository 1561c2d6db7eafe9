// Package program has the code that the main functions of the operator's programs share:
// termination by signal, a logger, flags, and metrics of the process.
//
// Three programs use less of it. The controller manager ends as controller-runtime does, with
// exit codes that the Jobs of the chart read. redirect ends within milliseconds, takes no
// flags, and has an exit code of its own for a wrong environment. switchyard writes for people,
// not to a log.
package program

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Main runs a program with its arguments, without its name, until it ends; its context ends
// when it is to. An error is logged as why ended, and makes the exit code 1; flag.ErrHelp is
// none.
func Main(ended string, run func(ctx context.Context, args []string) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		slog.Error(ended, "error", err)
		os.Exit(1)
	}
}

// Logger returns the logger of the program, which writes JSON to standard error, and is
// slog's default from now on.
func Logger(level slog.Level) *slog.Logger {
	logger := slog.New(slog.NewJSONHandler(os.Stderr, &slog.HandlerOptions{Level: level}))
	slog.SetDefault(logger)
	return logger
}

// Parse reads arguments that are all flags. Usage goes to help; the error is flag.ErrHelp
// when that is all that was asked for.
func Parse(flags *flag.FlagSet, args []string, help io.Writer) error {
	flags.SetOutput(help)
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q: all settings are flags, see -help", flags.Arg(0))
	}
	return nil
}

// List returns the function of a flag (flag.Func) with texts separated by commas, which it adds to a list.
func List(to *[]string) func(string) error {
	return func(text string) error {
		for one := range strings.SplitSeq(text, ",") {
			if one = strings.TrimSpace(one); one != "" {
				*to = append(*to, one)
			}
		}
		return nil
	}
}

// Registry returns a registry with the metrics of the process, and more.
func Registry(more ...prometheus.Collector) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(append(more, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))...)
	return registry
}

// DefaultsVariable is the environment variable with the version of the defaults. The chart sets it.
const DefaultsVariable = "SWITCHYARD_DEFAULTS"

// Defaults is a version of the defaults of settings that are not given. It changes only where a
// stricter default would stop clients that an earlier release served.
type Defaults int

const (
	// Earlier: the installation comes from a chart that had no version of defaults.
	Earlier Defaults = 1
	// Current: the installation began with this release or a later one.
	Current Defaults = 2
)

// Current reports whether the strict defaults of this release apply.
func (d Defaults) Current() bool { return d >= Current }

// ReadDefaults returns the version that the environment names; Current if it names none.
func ReadDefaults(getenv func(string) string) (Defaults, error) {
	return ParseDefaults(getenv(DefaultsVariable))
}

// ParseDefaults reads a version as text; Current for an empty one. Versions of a later release are
// refused.
func ParseDefaults(text string) (Defaults, error) {
	switch text {
	case "1":
		return Earlier, nil
	case "", "2":
		return Current, nil
	}
	return Current, fmt.Errorf("%s is %q: this release knows the versions 1 and 2 of its defaults", DefaultsVariable, text)
}

// AcceptPlain adds the flag accept-plain, which is false by default with the current defaults. The
// caller calls the returned function after it has parsed flags, with whether the program has a
// certificate: without one and without the flag it takes plain connections.
func AcceptPlain(flags *flag.FlagSet, d Defaults, accept *bool, usage string) (parsed func(certificate bool)) {
	flags.BoolVar(accept, "accept-plain", !d.Current(), usage)
	return func(certificate bool) {
		given := false
		flags.Visit(func(f *flag.Flag) { given = given || f.Name == "accept-plain" })
		*accept = *accept || !certificate && !given
	}
}

// ResolverFile is the resolver configuration that the kubelet writes for a pod.
const ResolverFile = "/etc/resolv.conf"

// ClusterDomain returns the domain of the cluster's Services, which the kubelet writes into
// each pod's resolver configuration: among the search domains, after "svc.". It is empty if the
// file does not contain it, as outside a pod.
func ClusterDomain(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close() //nolint:errcheck // It was only read.
	domain := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 0 || fields[0] != "search" {
			continue
		}
		domain = "" // Only the last line counts for the resolver.
		for _, d := range fields[1:] {
			if of, is := strings.CutPrefix(d, "svc."); is && domain == "" {
				domain = strings.TrimSuffix(of, ".")
			}
		}
	}
	return domain
}
