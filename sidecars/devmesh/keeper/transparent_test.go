package keeper_test

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/tests/transparency/differences"
	"switchyard.dev/tests/transparency/suite"
	"switchyard.dev/tests/transparency/wire"
)

// exchanges is a pod with two applications, one of odd answers and one of Go's own server,
// which are also forks; and the differences found between the two.
type exchanges struct {
	t     *testing.T
	table []differences.Row
	used  map[string]bool // rows
	wrong []string
}

// Whatever a client sends and an application answers, they see each other as they would without
// the sidecar, except for the documented differences, all of which are real.
func TestTheSidecarIsTransparent(t *testing.T) {
	table, err := differences.Table()
	if err != nil {
		t.Fatal(err)
	}
	e := &exchanges{t: t, table: slices.DeleteFunc(table, func(r differences.Row) bool { return !strings.HasPrefix(r.Case, "wire/") }), used: map[string]bool{}}
	r := newRig(t)
	forks := map[string]string{"serve": "10.96.60.1:80", "echo": "10.96.60.2:80"}
	ports := map[string]uint32{"serve": 8080, "echo": 8081}
	for name, port := range ports {
		for _, l := range []net.Listener{r.app(int(port)), r.fork(forks[name])} {
			serve := wire.Serve
			if name == "echo" {
				server := wire.Echo()
				t.Cleanup(func() { _ = server.Close() })
				serve = server.Serve
			}
			go func() { _ = serve(l) }()
		}
		r.Board.Declare(sandbox(name, forks[name], port))
	}
	r.Board.Complete()
	r.serveXDS()
	r.sidecar()
	r.ready()
	r.acked()
	for name, port := range ports {
		for _, key := range []string{"", name} {
			e.compare(suite.Target{Address: forks[name], Key: key}, suite.Target{Address: fmt.Sprintf("%s:%d", r.address, port), Key: key}, name)
		}
	}
	e.report()
}

// compare runs all cases both ways. A case that differs and should not is run again
// by itself, as often as it takes to know that it was not by chance.
func (e *exchanges) compare(bare, through suite.Target, application string) {
	const again = 3
	s := wire.Suite{}
	var left []string
	for try := range again {
		want, got := e.run(s, bare), e.run(s, through)
		left = nil
		for _, name := range slices.Sorted(maps.Keys(want)) {
			if want[name] == got[name] || e.allowed(name) {
				continue
			}
			left = append(left, name)
			if try == again-1 {
				e.wrong = append(e.wrong, fmt.Sprintf("%s, %s, key %q: bare\n%s\nwith the sidecar\n%s", application, name, bare.Key, want[name], got[name]))
			}
		}
		s = wire.Suite{Alone: true, Only: func(name string) bool { return slices.Contains(left, name) }}
	}
}

func (e *exchanges) run(s wire.Suite, to suite.Target) suite.Seen {
	seen, err := s.Run(e.t.Context(), to)
	if err != nil {
		e.t.Fatal(err)
	}
	return seen
}

// allowed reports whether the table has a case, and remembers that its rows are used.
func (e *exchanges) allowed(name string) bool {
	found := false
	for _, row := range e.table {
		if row.Matches("wire/" + name) {
			e.used[row.Case], found = true, true
		}
	}
	return found
}

func (e *exchanges) report() {
	for _, row := range e.table {
		if !e.used[row.Case] {
			e.t.Errorf("no case differs that the row %s is about", row.Case)
		}
	}
	for _, text := range e.wrong {
		e.t.Errorf("not in the table: %s", text)
	}
}
