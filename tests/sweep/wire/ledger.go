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
	factv1 "switchyard.dev/protos/gen/fact/v1"
)

// Lives are the objects that there have been under one path, by UID.
type Lives struct {
	// Made are those that a manager made, Deleted those that one asked to delete.
	Made, Deleted map[string]bool
}

// Ledger notes what managers made, deleted and withdrew. It is safe for concurrent
// use.
type Ledger struct {
	mu      sync.Mutex
	objects map[string]Lives
	stated  map[event.Key][]Statement
}

// Statement is a fact that a manager put on the log.
type Statement struct {
	// Withdrawn reports whether it withdraws its key.
	Withdrawn bool
	// Gate is where its manager is fenced in.
	Gate *Gate
	// Cause is the object that was changed.
	Cause event.Cause
	// Owner is the UID of its owner: the owner of a routing key, whichever object changed its
	// members, and for other facts the cause.
	Owner string
}

// ownerOf returns the UID of the owner of a fact.
func ownerOf(f event.Fact) string {
	if d, ok := f.Data.(*factv1.RoutingDeclared); ok {
		return d.GetOwner().GetUid()
	}
	return f.Cause.UID
}

// String returns the statement as text.
func (s Statement) String() string {
	what := "stated"
	if s.Withdrawn {
		what = "withdrawn"
	}
	return fmt.Sprintf("%s by manager %p for %s %s, generation %d of %s", what, s.Gate, s.Cause.Kind, s.Cause.Name, s.Cause.Generation, s.Cause.UID)
}

// NewLedger returns an empty one.
func NewLedger() *Ledger {
	return &Ledger{objects: map[string]Lives{}, stated: map[event.Key][]Statement{}}
}

// Forget forgets all that was noted.
func (l *Ledger) Forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.objects, l.stated = map[string]Lives{}, map[event.Key][]Statement{}
}

// Objects returns what became of every object, by the path of its URL.
func (l *Ledger) Objects() map[string]Lives {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]Lives{}
	for path, lives := range l.objects {
		out[path] = Lives{maps.Clone(lives.Made), maps.Clone(lives.Deleted)}
	}
	return out
}

// Stated returns the statements about each key, oldest first.
func (l *Ledger) Stated() map[event.Key][]Statement {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.stated) // Statements are only ever added.
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

// state records a statement.
func (l *Ledger) state(key event.Key, s Statement) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stated[key] = append(l.stated[key], s)
}
