// Package answers caches encoded responses of a routing table: one for each version and question,
// shared by all callers, and kept only while it is of the newest version or is still being sent.
//
// A slow reader keeps a response in memory, and after the next change of the table it is the only
// user of it. So the total size is limited: above the limit, the readers of the oldest versions are
// disconnected. They retry and get the newest version.
package answers

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"container/list"
	"sync"

	"switchyard.dev/eventbus/callers"
	"switchyard.dev/routeserver/table"
)

// The bounds of a Store.
const (
	// Budget is how many bytes answers may have together that are kept for readers; one
	// answer is kept whatever it has.
	Budget = 64 << 20
	// questions is of how many questions the answer of the newest version is kept.
	questions = 256
	// compressFrom is from how many bytes on it is worth compressing.
	compressFrom = 1 << 10
)

// Limits of requests for rules: the number in progress for each class of callers (anonymous
// callers, pods with a token, the operator's programs), the number of one caller, and its rate per
// second. Responses are shared, so the limits are wide.
const (
	maxRequests, eachRequests = 2048, 256
	requestRate, requestBurst = 1000, 5000
)

// Requests returns the pool for requests for rules on one listener.
func Requests() *callers.Pool {
	b := callers.Alike(maxRequests, eachRequests)
	b.Rate, b.Burst = requestRate, requestBurst
	return callers.NewPool("requests for rules", b)
}

// Store has answers. The zero value is ready. It is safe for concurrent use.
type Store struct {
	// Budget overrides the constant, for tests.
	Budget int

	mu     sync.Mutex
	hash   table.Hash
	newest map[any]*Answer
	bytes  int
	// kept are the answers that count, oldest first.
	kept list.List
}

// Answer is one answer in written form, for any number of readers.
type Answer struct {
	store *Store
	once  sync.Once
	plain []byte
	err   error

	zip    sync.Once
	zipped []byte

	// Guarded by the store's lock. place is nil when the response does not count towards the limit
	// (any more); readers are those it is being sent to, with their cancel functions.
	size    int
	place   *list.Element
	newest  bool
	readers map[*Reading]func()
}

// Reading is one reader that is being sent an answer.
type Reading struct {
	*Answer
	done sync.Once
}

// Read returns the answer to a question about a table, which encode makes when it is not
// there. The reader calls Done once it has been sent; cut is called, at most once and
// from any goroutine, when it takes too long while there is too little room. The error
// is encode's.
func (s *Store) Read(t table.Table, question any, cut func(), encode func() ([]byte, error)) (*Reading, error) {
	s.mu.Lock()
	if s.newest == nil || s.hash != t.Hash() {
		for _, a := range s.newest {
			a.newest = false
			s.drop(a)
		}
		s.hash, s.newest = t.Hash(), map[any]*Answer{}
	}
	a := s.newest[question]
	if a == nil {
		a = &Answer{store: s, readers: map[*Reading]func(){}}
		if len(s.newest) < questions {
			s.newest[question], a.newest = a, true
		}
	}
	r := &Reading{Answer: a}
	a.readers[r] = cut
	s.mu.Unlock()
	a.once.Do(func() {
		a.plain, a.err = encode()
		s.grow(a, len(a.plain))
	})
	if a.err != nil {
		r.Done()
		return nil, a.err
	}
	return r, nil
}

// Plain returns the response without compression. It is shared: do not modify it.
func (r *Reading) Plain() []byte { return r.plain }

// Gzip returns the answer compressed; false when that is not worth it.
func (r *Reading) Gzip() ([]byte, bool) {
	if len(r.plain) < compressFrom {
		return nil, false
	}
	r.zip.Do(func() {
		var out bytes.Buffer
		w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
		if err != nil {
			return
		}
		if _, err := w.Write(r.plain); err == nil && w.Close() == nil {
			r.zipped = out.Bytes()
			r.store.grow(r.Answer, len(r.zipped))
		}
	})
	return r.zipped, r.zipped != nil
}

// Done ends the reading: the answer has been sent, or will not be.
func (r *Reading) Done() {
	r.done.Do(func() {
		r.store.mu.Lock()
		defer r.store.mu.Unlock()
		delete(r.readers, r)
		r.store.drop(r.Answer)
	})
}

// drop removes an answer without readers that is no longer the newest. s.mu is locked.
func (s *Store) drop(a *Answer) {
	if a.newest || len(a.readers) > 0 || a.place == nil {
		return
	}
	s.kept.Remove(a.place)
	a.place = nil
	s.bytes -= a.size
	a.size = 0 // a reader that was cut off may still have it compressed
}

// grow counts what an answer takes, and makes room.
func (s *Store) grow(a *Answer, by int) {
	s.mu.Lock()
	if a.place == nil {
		a.place = s.kept.PushBack(a)
	}
	a.size += by
	s.bytes += by
	cut := s.overdue(a)
	s.drop(a) // all readers may have finished or been disconnected in the meantime
	s.mu.Unlock()
	for _, one := range cut {
		one()
	}
}

// overdue takes from the count the oldest answers but one, until the rest is within the
// budget, and returns how their readers are cut off. s.mu is held.
func (s *Store) overdue(spare *Answer) (cut []func()) {
	budget := cmp.Or(s.Budget, Budget)
	for e := s.kept.Front(); e != nil && s.bytes > budget; {
		a := e.Value.(*Answer)
		e = e.Next()
		if a == spare {
			continue
		}
		for r, one := range a.readers {
			delete(a.readers, r)
			cut = append(cut, one)
		}
		if a.newest {
			a.newest = false
			for question, of := range s.newest {
				if of == a {
					delete(s.newest, question)
				}
			}
		}
		s.drop(a)
	}
	return cut
}
