package workflows

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/tests/e2e/sample"
	"switchyard.dev/tools/wait"
	"switchyard.dev/workflows/samples"
)

// all returns every sample, by its name.
func (s *shop) all() map[string]sample.Sample {
	const greeting = "/cache/greeting"
	all := map[string]sample.Sample{}
	for _, one := range []sample.Sample{
		{Name: "postgres", Sandbox: "ana", Resource: "db", Works: func() { s.servesCustomers("ana") }, Gone: func() { s.noDatabase("sandbox-ana") }},
		{Name: "opentofu", Sandbox: "ben", Resource: "db", Works: func() { s.servesCustomers("ben") }, Gone: func() { s.noDatabase("stack-ben") }},
		{Name: "queue", Sandbox: "cleo", Resource: "parcels", Works: s.worksOnMessages, Gone: func() {
			if _, err := s.queue.Stream(s.Context(), "parcels-cleo"); !errors.Is(err, jetstream.ErrStreamNotFound) {
				s.Errorf("the sandbox's stream is left: %v", err)
			}
		}},
		s.Python(),
		{Name: "helm", Sandbox: "emil", Resource: "store", Works: func() { s.Caches("emil") }, Gone: func() {}},
		{Name: "kubernetes", Sandbox: "finn", Resource: "store", Works: func() {
			s.Answers(s.Podinfo+greeting, "finn", "hello from finn")
			s.Answers(s.Podinfo+greeting, "", "404")
			s.Caches("finn")
		}, Gone: func() {}},
	} {
		all[one.Name] = one
	}
	return all
}

// servesCustomers checks that requests with the key are answered from a database of their own.
func (s *shop) servesCustomers(key string) {
	s.Helper()
	s.Answers(s.customers, key, "Ada,Grace")
	s.Answers(s.customers, "", "Zoe")
}

// noDatabase checks that the PostgreSQL server has neither a database nor a user of that name.
func (s *shop) noDatabase(name string) {
	s.Helper()
	if left := s.psql("postgres", "SELECT datname FROM pg_database WHERE datname = '"+name+"' UNION SELECT rolname FROM pg_roles WHERE rolname = '"+name+"'"); left != "" {
		s.Errorf("left in the PostgreSQL server: %s", left)
	}
}

// worksOnMessages sends a message to the sandbox's stream and one to the baseline's: each is
// taken by its own worker.
func (s *shop) worksOnMessages() {
	s.Helper()
	before, err := s.worked("parcels")
	s.Must(err)
	for stream, want := range map[string]uint64{"parcels-cleo": 1, "parcels": before + 1} {
		_, err := s.queue.Publish(s.Context(), stream+".one", []byte("a parcel"))
		s.Must(err)
		wait.Eventually(s, 30*time.Second, "a message of stream "+stream+" is worked on", func() error {
			n, err := s.worked(stream)
			if err == nil && n != want {
				err = errors.New("it is not yet")
			}
			return err
		})
	}
}

func TestEachSample(t *testing.T) {
	whole := open(t)
	whole.MakeRoom()
	folders, err := fs.ReadDir(samples.Files, ".")
	whole.Must(err)
	for _, folder := range folders {
		t.Run(folder.Name(), func(t *testing.T) {
			s := whole.in(t)
			one, known := s.all()[folder.Name()]
			if !known {
				t.Fatal("nothing says how it is seen to work")
			}
			s.Live(one)
		})
	}
}
