package controlplane

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/controlplane-link/controlplane/checks"
	"switchyard.dev/controlplane-link/controlplane/model"
)

// slow are identities that take a second to read. The key is known until gone is set.
type slow struct {
	checks.Identities
	known                        model.Digest
	reads, now, most, used, gone atomic.Int64
}

func (s *slow) CallerOf(_ context.Context, d model.Digest) (model.Caller, error) {
	s.reads.Add(1)
	if n := s.now.Add(1); n > s.most.Load() {
		s.most.Store(n)
	}
	is := s.gone.Load() == 0 && d == s.known
	time.Sleep(time.Second)
	s.now.Add(-1)
	if is {
		return model.Caller{Org: "acme", Principal: ci, Role: model.RoleMember, KeyID: "k", Method: model.MethodAPIKey}, nil
	}
	return model.Caller{}, model.ErrNotFound
}

func (s *slow) Session(context.Context, model.Digest) (model.Session, error) {
	return model.Session{}, model.ErrNotFound
}

func (s *slow) Used(_ context.Context, _ string, _ time.Time, from string) error {
	if from == "192.0.2.1" {
		s.used.Add(1)
	}
	return nil
}

var ci = model.Principal{Kind: model.KindServiceAccount, ID: "ci"}

func slowly() (*slow, *Keys) {
	s := &slow{known: model.DigestOf("key")}
	return s, &Keys{logger: slog.New(slog.DiscardHandler), checks: checks.New(s)}
}

// TestChecksOfKeys: clients that guess keys wait for each other, and clients with one key share a read. Its use is
// recorded, and a check without a request is none.
func TestChecksOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, k := slowly()
		if key, err := k.FindDigest(t.Context(), s.known, ""); key == nil || err != nil { // without a request
			t.Errorf("%+v, %v", key, err)
		}
		if key, err := k.Find(t.Context(), "key", "192.0.2.1:1234"); key == nil || err != nil || key.User != "ci" {
			t.Errorf("%+v, %v", key, err)
		}
		for n := range 8 {
			go func() {
				if key, err := k.Find(t.Context(), fmt.Sprint("guess", n), ""); key != nil || err != nil {
					t.Errorf("%+v, %v", key, err)
				}
			}()
		}
		synctest.Wait()
		if n := s.now.Load(); n != 2 {
			t.Errorf("%d keys that are not known are read at once", n)
		}
		began, done := time.Now(), make(chan bool)
		for range 100 {
			go func() {
				key, err := k.Find(t.Context(), "key", "192.0.2.1:1234")
				done <- key != nil && err == nil
			}()
		}
		for range 100 {
			if !<-done {
				t.Error("a client with a key is refused")
			}
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("clients with a key have waited for %s", took)
		}
		if n := s.most.Load(); n != 3 {
			t.Errorf("%d reads at once, want those of two guesses and of the key", n)
		}
		time.Sleep(10 * time.Second)
		if n := s.reads.Load(); n != 11 || s.used.Load() != 1 {
			t.Errorf("%d reads, %d records of a use", n, s.used.Load())
		}
	})
}

// TestConnectionsOfAKeyThatIsDeleted share a read, which began after the deletion.
func TestConnectionsOfAKeyThatIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, k := slowly()
		key, err := k.Find(t.Context(), "key", "192.0.2.1:1234")
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan time.Time)
		for range 100 {
			go func() {
				k.WhileValid(t.Context(), key, "prod")
				ended <- time.Now()
			}()
		}
		time.Sleep(checkAfter + 2*time.Second) // they have read that it is valid
		go func() { _, _ = k.Find(t.Context(), "key", "192.0.2.1:1234") }()
		time.Sleep(time.Second / 2) // a read before the deletion is under way
		s.gone.Store(1)
		k.change()
		deleted := time.Now()
		for range 100 {
			if took := (<-ended).Sub(deleted); took != time.Second {
				t.Errorf("a connection ends after %s", took)
			}
		}
		if n := s.reads.Load(); n != 4 {
			t.Errorf("%d reads, want one at first, after a second, of the other client, and after the deletion", n)
		}
	})
}
