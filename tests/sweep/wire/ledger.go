package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"

	"switchyard.dev/eventbus/event"
)

// Lives are the objects that there have been under one path, by UID.
type Lives struct {
	// Made are those that a manager made, Deleted those that one asked to delete.
	Made, Deleted map[string]bool
}

// Ledger notes what managers made, deleted and withdrew. It is safe for concurrent
// use.
type Ledger struct {
	mu        sync.Mutex
	objects   map[string]Lives
	withdrawn map[event.Key]int
}

// NewLedger gives an empty one.
func NewLedger() *Ledger {
	return &Ledger{objects: map[string]Lives{}, withdrawn: map[event.Key]int{}}
}

// Objects gives what became of every object, by the path of its URL.
func (l *Ledger) Objects() map[string]Lives {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]Lives{}
	for path, lives := range l.objects {
		out[path] = Lives{maps.Clone(lives.Made), maps.Clone(lives.Deleted)}
	}
	return out
}

// Withdrawn gives how often each key of the log was withdrawn.
func (l *Ledger) Withdrawn() map[event.Key]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.withdrawn)
}

// note notes what a write brought about.
func (l *Ledger) note(r *http.Request, response *http.Response) error {
	made := response.StatusCode == http.StatusCreated && r.Method == http.MethodPatch
	deleted := response.StatusCode < 300 && r.Method == http.MethodDelete
	if !made && !deleted {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		return err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	var object struct {
		Metadata struct{ UID string }
		Details  struct{ UID string }
	}
	if err := json.Unmarshal(body, &object); err != nil {
		return fmt.Errorf("wire: read the answer to %s %s: %w", r.Method, r.URL.Path, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	lives, ok := l.objects[r.URL.Path]
	if !ok {
		lives = Lives{Made: map[string]bool{}, Deleted: map[string]bool{}}
		l.objects[r.URL.Path] = lives
	}
	if made {
		lives.Made[object.Metadata.UID] = true
	} else {
		lives.Deleted[object.Metadata.UID+object.Details.UID] = true
	}
	return nil
}

// withdraw notes a withdrawal.
func (l *Ledger) withdraw(key event.Key) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.withdrawn[key]++
}
