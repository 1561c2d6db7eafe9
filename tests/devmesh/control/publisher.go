package control

import (
	"context"
	"encoding/json"
	"errors"
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

// Publisher replaces a controller manager, in a separate process: it receives each object,
// publishes its fact, and returns the position on the log.
type Publisher struct {
	publisher *publisher.Publisher
	ctx       context.Context
	mu        sync.Mutex
	objects   map[event.Key]event.Fact
}

// Publishing is what a publisher works with.
type Publishing struct {
	// URL is the event bus's, Token a file with the token for it, Store a file for the
	// witness, and Log one for what the publisher logs.
	URL, Token, Store, Log string
	// Present are the facts of the objects that are there.
	Present []event.Message
}

// Open connects to the bus and begins to state the objects that are there.
func (s *Publisher) Open(p Publishing, _ *struct{}) error {
	said, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	logger := slog.New(slog.NewTextHandler(said, nil))
	log, _, err := connect.Open(connect.Config{URL: p.URL, Role: connect.Writer, TokenFile: p.Token, Logger: logger}, jetstream.Config{})
	if err != nil {
		return err
	}
	s.ctx, s.objects = context.Background(), map[event.Key]event.Fact{}
	if s.publisher, err = publisher.New(publisher.Config{
		Log: log, Objects: s.keys, Refill: func(context.Context) error { go s.stateAll(s.ctx); return nil },
		Epochs: witnessFile(p.Store), Logger: logger,
	}); err != nil {
		return err
	}
	for _, m := range p.Present {
		fact, err := event.Decode(m)
		if err != nil {
			return err
		}
		s.know(fact)
	}
	go func() { _ = s.publisher.Run(s.ctx) }() // it logs what keeps it
	return nil
}

// State states a fact, as long as it is the newest of its key, until it is recorded.
func (s *Publisher) State(m event.Message, pos *event.Pos) error {
	fact, err := event.Decode(m)
	if err != nil {
		return err
	}
	s.know(fact)
	*pos, err = s.until(s.ctx, fact)
	return err
}

// until states a fact again and again until it is recorded, refused, or outdated.
func (s *Publisher) until(ctx context.Context, f event.Fact) (event.Pos, error) {
	for {
		pos, err := s.publisher.Put(ctx, f)
		if err == nil || errors.Is(err, eventbus.ErrRefused) || s.outdated(f) {
			return pos, err
		}
		time.Sleep(20 * time.Millisecond) // as a controller's queue does
	}
}

func (s *Publisher) know(f event.Fact) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[f.Key] = f; f.Tombstone() {
		delete(s.objects, f.Key)
	}
}

func (s *Publisher) keys(context.Context) ([]event.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.objects)), nil
}

func (s *Publisher) stateAll(ctx context.Context) {
	s.mu.Lock()
	all := slices.Collect(maps.Values(s.objects))
	s.mu.Unlock()
	for _, f := range all {
		_, _ = s.until(ctx, f) // it logs refusals
	}
}

func (s *Publisher) outdated(f event.Fact) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	newest, ok := s.objects[f.Key]
	return ok && !event.Same(newest, f) || !ok && !f.Tombstone()
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
