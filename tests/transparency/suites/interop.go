package suites

import (
	"context"
	"net"
	"os/exec"
	"regexp"
	"strings"
	"time"

	"switchyard.dev/tests/transparency/suite"
	"switchyard.dev/xds/routingkey"
)

// Program returns the command that runs a program with arguments.
type Program func(args ...string) *exec.Cmd

// Interop is gRPC's interop client: https://github.com/grpc/grpc/blob/master/doc/interop-test-descriptions.md.
type Interop struct {
	// Client returns the command of the client.
	Client Program
}

// interopCases are all of the client's but those that are about credentials, which
// need Google's.
var interopCases = []string{
	"empty_unary", "large_unary", "client_streaming", "server_streaming", "ping_pong", "empty_stream",
	"timeout_on_sleeping_server", "cancel_after_begin", "cancel_after_first_response", "status_code_and_message",
	"special_status_message", "custom_metadata", "unimplemented_method", "unimplemented_service", "pick_first_unary",
	"rpc_soak", "channel_soak", "orca_per_rpc", "orca_oob",
}

// patient lets a busy machine be slow: without it a soak fails at an answer that takes a second.
var patient = []string{"-soak_per_iteration_max_acceptable_latency_ms", "25000", "-soak_overall_timeout_seconds", "25"}

// Name is suite.Suite.
func (Interop) Name() string { return "grpc" }

// Run is suite.Suite.
func (s Interop) Run(ctx context.Context, to suite.Target) (suite.Seen, error) {
	host, port, err := net.SplitHostPort(to.Address)
	if err != nil {
		return nil, err
	}
	seen := suite.Seen{}
	for _, name := range interopCases {
		args := append([]string{"-server_host", host, "-server_port", port, "-test_case", name}, patient...)
		if to.Key != "" {
			args = append(args, "-additional_metadata", routingkey.Baggage+":"+baggage(to.Key))
		}
		said, err := output(ctx, s.Client(args...), 30*time.Second)
		if err == nil {
			seen[name] = suite.Passed
			continue
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		seen[name] = "failed: " + stable(lastLine(said), to)
	}
	return seen, nil
}

var moment = regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(\.\d+)? |after [0-9.]+m?s|[0-9a-f]{32,}|:\d{4,5}\b`)

// stable takes out of a message what differs from run to run.
func stable(message string, to suite.Target) string {
	return moment.ReplaceAllString(strings.ReplaceAll(message, to.Address, "ADDRESS"), "")
}

func lastLine(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return lines[len(lines)-1]
}

// output runs a program and returns its output on both streams. It is killed when it takes too
// long.
func output(ctx context.Context, cmd *exec.Cmd, within time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	limited := exec.CommandContext(ctx, cmd.Path, cmd.Args[1:]...) //nolint:gosec // a program of tools/apps
	limited.Env, limited.WaitDelay = cmd.Env, time.Second
	said, err := limited.CombinedOutput()
	return string(said), err
}

// baggage is the value of the header that carries a key.
func baggage(key string) string { return routingkey.Member + "=" + key }
