package devmesh

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"switchyard.dev/eventbus"
	"switchyard.dev/eventbus/connect"
	"switchyard.dev/eventbus/event"
	"switchyard.dev/eventbus/jetstream"
	"switchyard.dev/eventbus/publisher"
)

// The publisher's process is what is left of a controller manager when its
// objects are given: it is told of each on its stdin, states it, and says on its
// stdout where it was recorded.

// told is one line to the publisher.
type told struct {
	// ID comes back with the answer. 0 wants none: the object was there before.
	ID   uint64
	Fact event.Message
	// Begin says that all objects which were there have been told.
	Begin bool
}

// stated is one line from the publisher.
type stated struct {
	ID  uint64
	Pos event.Pos
}

// Environment of the publisher.
const (
	publisherURL   = "SWITCHYARD_ENDURE_BUS"
	publisherToken = "SWITCHYARD_ENDURE_TOKEN"
	publisherStore = "SWITCHYARD_ENDURE_WITNESS"
)

// stating is the state of the publisher's process.
type stating struct {
	publisher *publisher.Publisher
	mu        sync.Mutex
	objects   map[event.Key]event.Fact
	out       *json.Encoder
}

// servePublisher states what it is told until its stdin ends.
func servePublisher(in io.Reader, out io.Writer) error {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	logger := slog.New(slog.NewTextHandler(os.Stderr, nil))
	log, conn, err := connect.Open(connect.Config{
		URL: os.Getenv(publisherURL), Role: connect.Writer, TokenFile: os.Getenv(publisherToken), Logger: logger,
	}, jetstream.Config{})
	if err != nil {
		return err
	}
	defer conn.Close()
	s := &stating{objects: map[event.Key]event.Fact{}, out: json.NewEncoder(out)}
	if s.publisher, err = publisher.New(publisher.Config{
		Log: log, Objects: s.keys, Refill: func(context.Context) error { go s.stateAll(ctx); return nil },
		Epochs: witnessFile(os.Getenv(publisherStore)), Logger: logger,
	}); err != nil {
		return err
	}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 4*eventbus.MaxEvent)
	for lines.Scan() {
		var t told
		if err := json.Unmarshal(lines.Bytes(), &t); err != nil {
			return err
		}
		if t.Begin {
			go func() { _ = s.publisher.Run(ctx) }() // it says on stderr what keeps it
			continue
		}
		fact, err := event.Decode(t.Fact)
		if err != nil {
			return err
		}
		s.know(fact)
		if t.ID > 0 {
			go s.state(ctx, t.ID, fact)
		}
	}
	return lines.Err()
}

func (s *stating) know(f event.Fact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[f.Key] = f; f.Tombstone() {
		delete(s.objects, f.Key)
	}
}

func (s *stating) keys(context.Context) ([]event.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.objects)), nil
}

func (s *stating) stateAll(ctx context.Context) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.objects))
	s.mu.Unlock()
	for _, f := range all {
		s.state(ctx, 0, f)
	}
}

// state states a fact, as long as it is the newest of its key, until it is
// recorded.
func (s *stating) state(ctx context.Context, id uint64, f event.Fact) {
	for ctx.Err() == nil {
		pos, err := s.publisher.Put(ctx, f)
		if err == nil {
			s.answer(id, pos)
			return
		}
		if errors.Is(err, eventbus.ErrRefused) {
			fmt.Fprintln(os.Stderr, "refused:", f.Key, err)
			return
		}
		if s.outdated(f) {
			return
		}
		time.Sleep(20 * time.Millisecond) // as a controller's queue does
	}
}

func (s *stating) outdated(f event.Fact) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest, ok := s.objects[f.Key]
	return ok && !event.Same(newest, f) || !ok && !f.Tombstone()
}

func (s *stating) answer(id uint64, pos event.Pos) {
	if id == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.out.Encode(stated{id, pos}) // whoever asked is gone, and this process ends
}

// witnessFile keeps the publisher's witness in a file.
type witnessFile string

// Load implements publisher.EpochStore.
func (f witnessFile) Load(context.Context) (w publisher.Witness, err error) {
	text, err := os.ReadFile(string(f))
	if errors.Is(err, os.ErrNotExist) {
		return w, nil
	}
	if err != nil {
		return w, err
	}
	return w, json.Unmarshal(text, &w)
}

// Save implements publisher.EpochStore.
func (f witnessFile) Save(_ context.Context, w publisher.Witness) error {
	text, err := json.Marshal(w)
	if err != nil {
		return err
	}
	next := filepath.Join(filepath.Dir(string(f)), "."+filepath.Base(string(f)))
	if err := os.WriteFile(next, text, 0o600); err != nil {
		return err
	}
	return os.Rename(next, string(f))
}
