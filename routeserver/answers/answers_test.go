package answers_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/eventbus/event"
	factv1 "switchyard.dev/protos/gen/fact/v1"
	"switchyard.dev/routeserver/answers"
	"switchyard.dev/routeserver/table"
)

// version returns a table that no other version equals.
func version(n int) table.Table {
	name := fmt.Sprintf("w%d", n)
	at := func(seq uint64, f event.Fact) event.Recorded {
		return event.Recorded{Fact: f, Pos: event.Pos{Epoch: "e", Seq: seq}, At: time.Unix(1, 0)}
	}
	return table.Table{}.Apply(
		at(1, event.Fact{Key: event.RoutingKey(name), Data: &factv1.RoutingDeclared{RoutingKey: name, Members: []*factv1.Member{
			{Kind: "ForkedWorkload", Namespace: "ns", Name: name, Sandbox: name}}}}),
		at(2, event.Fact{Key: event.Workload("ForkedWorkload", "ns", name), Data: &factv1.WorkloadObserved{
			Workload: &factv1.ObjectRef{Kind: "ForkedWorkload", Namespace: "ns", Name: name, Uid: "u"},
			Baseline: &factv1.ObjectRef{Kind: "Deployment", Namespace: "ns", Name: "customer"}}}),
		at(3, event.Fact{Key: event.Log, Data: &factv1.Complete{Reason: "first"}}),
	)
}

func read(t *testing.T, s *answers.Store, of table.Table, question any, cut func(), size int) *answers.Reading {
	t.Helper()
	r, err := s.Read(of, question, cut, func() ([]byte, error) { return bytes.Repeat([]byte("x"), size), nil })
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func never(t *testing.T) func() {
	return func() { t.Error("a reader was cut off that nobody waited for") }
}

func TestAnAnswerIsWrittenOnce(t *testing.T) {
	var s answers.Store
	var written atomic.Int32
	first := version(1)
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			r, err := s.Read(first, "q", never(t), func() ([]byte, error) {
				written.Add(1)
				return []byte("answer"), nil
			})
			if err != nil || string(r.Plain()) != "answer" {
				t.Errorf("%v", err)
				return
			}
			r.Done()
			r.Done()
		})
	}
	all.Wait()
	read(t, &s, first, "another", never(t), 10).Done()
	if bytes, n := s.Holds(); written.Load() != 1 || n != 2 || bytes != 16 {
		t.Errorf("written %d times; %d bytes in %d answers are kept", written.Load(), bytes, n)
	}
	read(t, &s, version(2), "q", never(t), 10).Done()
	if bytes, n := s.Holds(); n != 1 || bytes != 10 {
		t.Errorf("of the version before %d bytes are kept, in %d answers", bytes, n)
	}
}

func TestAnAnswerStaysWhileItIsSent(t *testing.T) {
	var s answers.Store
	slow := read(t, &s, version(1), "q", never(t), 10)
	read(t, &s, version(2), "q", never(t), 10).Done()
	if _, n := s.Holds(); n != 2 {
		t.Errorf("%d answers are kept", n)
	}
	slow.Done()
	if _, n := s.Holds(); n != 1 {
		t.Errorf("%d answers are kept", n)
	}
}

func TestTheOldestReaderIsDisconnectedWhenMemoryIsShort(t *testing.T) {
	s := answers.Store{Budget: 35}
	var cut []int
	var slow []*answers.Reading
	for n := range 6 {
		slow = append(slow, read(t, &s, version(n), "q", func() { cut = append(cut, n) }, 10))
	}
	if fmt.Sprint(cut) != "[0 1 2]" {
		t.Errorf("cut off are %v", cut)
	}
	if bytes, n := s.Holds(); bytes != 30 || n != 3 {
		t.Errorf("%d bytes are kept, in %d answers", bytes, n)
	}
	for _, r := range slow {
		r.Done()
	}
	if bytes, n := s.Holds(); bytes != 10 || n != 1 {
		t.Errorf("%d bytes are kept, in %d answers", bytes, n)
	}
	read(t, &s, version(9), "large", never(t), 1000).Done() // alone it may be as large as it is
}

func TestADisconnectedCompressingClientIsCountedCorrectly(t *testing.T) {
	s := answers.Store{Budget: 3000}
	slow := read(t, &s, version(1), "q", func() {}, 2000)
	read(t, &s, version(2), "q", never(t), 2000).Done()
	if _, ok := slow.Gzip(); !ok {
		t.Error("2,000 bytes are not compressed")
	}
	slow.Done()
	if bytes, n := s.Holds(); bytes != 2000 || n != 1 {
		t.Errorf("%d bytes are kept, in %d answers", bytes, n)
	}
}

func TestManyQuestionsAreBounded(t *testing.T) {
	s := answers.Store{Budget: 1000}
	of := version(1)
	for n := range 2000 {
		read(t, &s, of, n, never(t), 10).Done()
	}
	if bytes, _ := s.Holds(); bytes > 1000 {
		t.Errorf("%d bytes are kept", bytes)
	}
}

func TestCompressed(t *testing.T) {
	var s answers.Store
	if _, ok := read(t, &s, version(1), "small", never(t), 10).Gzip(); ok {
		t.Error("ten bytes are compressed")
	}
	zipped, ok := read(t, &s, version(1), "large", never(t), 100_000).Gzip()
	if !ok || len(zipped) > 10_000 {
		t.Fatalf("%d bytes, %t", len(zipped), ok)
	}
	r, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := io.ReadAll(r); err != nil || len(plain) != 100_000 {
		t.Errorf("%d bytes, %v", len(plain), err)
	}
}

func TestAnEncodingErrorReachesAllWaiters(t *testing.T) {
	var s answers.Store
	broken := errors.New("broken")
	for range 2 {
		if _, err := s.Read(version(1), "q", never(t), func() ([]byte, error) { return nil, broken }); !errors.Is(err, broken) {
			t.Errorf("got %v", err)
		}
	}
}
