package switchyard_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc"

	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/memory"
	"switchyard.dev/routeserver/server"
	"switchyard.dev/tools/switchyard/command/exit"
)

// other serves gRPC that is no route server.
func other(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	go func() { _ = s.Serve(l) }()
	t.Cleanup(s.Stop)
	return l.Addr().String()
}

// cold serves a log that is not whole.
func cold(t *testing.T) string {
	t.Helper()
	log := memory.New()
	if _, err := log.Begin(t.Context(), event.Mark{}); err != nil {
		t.Fatal(err)
	}
	return serve(t, log, server.Config{})
}

// silent takes connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func TestExitCodesAndMessages(t *testing.T) {
	file := save(t, "log.jsonl", stored(t))
	early := save(t, "early.jsonl", stored(t)[:2])
	_, address := live(t, story()...)
	places := map[string]string{
		"LOG": file, "EARLY": early, "LIVE": address, "CLOSED": "127.0.0.1:1", "OTHER": other(t), "COLD": cold(t), "SILENT": silent(t),
		"NONE": filepath.Join(t.TempDir(), "none"),
	}
	for name, c := range map[string]struct {
		args string
		code exit.Code
		says string
	}{
		"help":                              {"--help", exit.OK, ""},
		"no command":                        {"", exit.OK, ""},
		"a version":                         {"version", exit.OK, ""},
		"a whole table":                     {"table --server LIVE", exit.OK, ""},
		"routed":                            {"explain deployment/shop/customer --key alice --at 7 --server LIVE", exit.OK, ""},
		"not routed":                        {"explain deployment/shop/customer --key dave --server LIVE", exit.No, ""},
		"a key without a history":           {"history --key dave --server LIVE", exit.No, ""},
		"a difference that does not matter": {"diff 3 --server LIVE", exit.OK, ""},
		"a difference that matters":         {"diff 3 --exit-code --server LIVE", exit.No, ""},
		"no difference":                     {"diff 3 4 --exit-code --server LIVE", exit.OK, ""},
		"an unknown command":                {"tabel", exit.Usage, `unknown command "tabel"`},
		"a name for a flag":                 {"wait dana", exit.Usage, `wait takes flags only, so it does not take "dana"`},
		"an unknown flag":                   {"table --workloads x", exit.Usage, "unknown flag: --workloads"},
		"too few arguments":                 {"explain --server LIVE", exit.Usage, "accepts 1 arg"},
		"a recording of nothing":            {"traffic record", exit.Usage, "give --sandbox NAME"},
		"a recording of two things":         {"traffic record --sandbox s --capture c -n shop", exit.Usage, "choose one of --sandbox and --capture"},
		"a capture somewhere":               {"traffic record --capture c", exit.Usage, "--capture NAME -n NAMESPACE"},
		"a recording without end":           {"traffic record --sandbox s --for 2h", exit.Usage, "--for is at most 1h0m0s"},
		"a file for whole requests":         {"traffic record --sandbox s --to-file NONE", exit.Usage, "use --out-dir or --har"},
		"a recording in two forms":          {"traffic record --sandbox s --short --har NONE", exit.Usage, "choose one of --out-dir, --har and --short"},
		"nothing to delete":                 {"traffic record --sandbox s --clean", exit.Usage, "--clean needs --out-dir"},
		"a recording at a control plane":    {"traffic record --sandbox s --control-plane https://x", exit.Usage, "traffic record does not use --control-plane: use a kubeconfig"},
		"an unknown form of output":         {"table -o xml", exit.Usage, "--output is table, json or yaml"},
		"two places to ask":                 {"table --server LIVE --archive LOG", exit.Usage, "give one"},
		"no patience":                       {"table --request-timeout 0s --server LIVE", exit.Usage, "--request-timeout"},
		"a URL instead of an address":       {"table --server http://localhost:7777", exit.Usage, "host and port"},
		"a version that is none":            {"table --at yesterday --server LIVE", exit.Usage, `"yesterday" is no version`},
		"a moment to come":                  {"table --at 2099-01-01T00:00:00Z --server LIVE", exit.Usage, "has not come yet"},
		"a position that is none":           {"watch --behind 15m --server LIVE", exit.Usage, "--behind is a position"},
		"a workload that is none":           {"table --workload customer --server LIVE", exit.Usage, "--workload is KIND/NAMESPACE/NAME"},
		"a workload of another namespace":   {"table --workload deployment/shop/customer -n other --server LIVE", exit.Usage, "the same namespace"},
		"a header that is none":             {"explain customer.shop:80 -H baggage --server LIVE", exit.Usage, "--header is 'name: value'"},
		"nothing to tell the history of":    {"history --server LIVE", exit.Usage, "at least one of the flags"},
		"two to tell the history of":        {"history --key a --member b/c/d --server LIVE", exit.Usage, "none of the others can be"},
		"too long to wait":                  {"wait --timeout 1h --server LIVE", exit.Usage, "--timeout is from 1s to 5m"},
		"nothing to replay":                 {"replay", exit.Usage, "give the FILE of an archive, or --live"},
		"both to replay":                    {"replay LOG --live --server LIVE", exit.Usage, "give the FILE of an archive, or --live"},
		"nothing to bisect with":            {"bisect LOG", exit.Usage, "give the command behind --"},
		"a mark that is none":               {"audit verify LOG --mark 12", exit.Usage, "--mark is epoch/sequence/checksum"},
		"a mark of another epoch":           {"audit verify LOG --mark other/3/" + strings.Repeat("ab", 32), exit.Usage, "the mark is of epoch other"},
		"nobody at the address":             {"table --server CLOSED", exit.Unavailable, "no route server answers at CLOSED (from --server)"},
		"nobody to watch":                   {"watch --server CLOSED", exit.Unavailable, "no route server answers at CLOSED"},
		"nobody to export from":             {"log export NONE --server CLOSED", exit.Unavailable, "no route server answers at CLOSED"},
		"another server":                    {"table --server OTHER", exit.Unavailable, "it is no route server"},
		"a server that never answers":       {"table --server SILENT --request-timeout 200ms", exit.Unavailable, "SILENT"},
		"no kubeconfig":                     {"table --kubeconfig NONE", exit.Unavailable, "Name a route server (--server host:port), or a cluster that has one"},
		"a table that is not whole":         {"table --server COLD", exit.Unavailable, "switchyard: the routing table is not whole yet"},
		"a request to a table not whole":    {"explain deployment/shop/customer --key a --server COLD", exit.Unavailable, ""},
		"a version to come":                 {"table --at 999 --server LIVE", exit.Gone, "999"},
		"a version of another epoch":        {"table --at other/3 --server LIVE", exit.Gone, "other"},
		"a moment long ago":                 {"table --at 2020-01-01T00:00:00Z --server LIVE", exit.Gone, "2020"},
		"a version before the first":        {"replay LOG --to 2", exit.Gone, "it has versions 3 to 9"},
		"a version behind the last":         {"replay LOG --to 10", exit.Gone, "it has versions 3 to 9"},
		"a version of another log":          {"replay LOG --to other/3", exit.Gone, "this log is of epoch " + epoch},
		"a log that never was whole":        {"table --archive EARLY", exit.Gone, "there never was a whole table"},
		"a file that is not there":          {"replay NONE", exit.Failed, "no such file"},
		"a file that is no archive":         {"audit verify /dev/null", exit.Failed, "the file is empty"},
		"a command that is not there":       {"bisect LOG -- NONE", exit.Failed, "the command cannot be run"},
		"a command that never succeeds":     {"bisect LOG -- false", exit.No, "succeeds at none of 7 versions that were tried"},
		"a command that never fails":        {"bisect LOG -- true", exit.No, "does not fail at version 9"},
		"bounds the wrong way round":        {"bisect LOG --good 8 --bad 4 -- true", exit.Usage, "--good must be a version before --bad"},
		"an export to nowhere":              {"log export NONE/log.jsonl --server LIVE", exit.Failed, "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			replace := func(s string) string {
				for place, is := range places {
					s = strings.ReplaceAll(s, place, is)
				}
				return s
			}
			got := client().run(t.Context(), strings.Fields(replace(c.args))...)
			if got.code != c.code || !strings.Contains(got.err, replace(c.says)) {
				t.Errorf("exit code %d, want %d, and %q\n%s%s", got.code, c.code, replace(c.says), got.out, got.err)
			}
			if c.says == "" && strings.Contains(got.err, "switchyard:") {
				t.Errorf("said: %s", got.err)
			}
			if c.says != "" && got.out != "" {
				t.Errorf("on standard output: %s", got.out)
			}
		})
	}
}
