package manager

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/program"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
	"switchyard.dev/sidecars/traffic/record"
	"switchyard.dev/sidecars/traffic/ring"
)

// saved are the books on disk, beside the ring with the epoch.
type saved struct {
	Epoch    string         `json:"epoch"`
	Captures []savedCapture `json:"captures"`
}

// savedCapture is one capture: Counts is a trafficv1.Counts.
type savedCapture struct {
	UID       string    `json:"uid"`
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Ended     time.Time `json:"ended,omitzero"`
	Deleted   time.Time `json:"deleted,omitzero"`
	Counts    []byte    `json:"counts"`
}

const booksFile = "books.json"

// save writes the books if they have changed, or else nothing.
func (b *books) save(dir, epoch string) error {
	b.saving.Lock()
	defer b.saving.Unlock()
	b.mu.Lock()
	if !b.dirty {
		b.mu.Unlock()
		return nil
	}
	s, err := saved{Epoch: epoch}, error(nil)
	for _, c := range b.captures {
		counts := &trafficv1.Counts{}
		for _, p := range c.sources {
			counts.Pods = append(counts.Pods, p)
		}
		text, wrong := proto.Marshal(counts)
		err = errors.Join(err, wrong)
		s.Captures = append(s.Captures, savedCapture{UID: c.uid, Namespace: c.namespace, Name: c.name, Ended: c.ended, Deleted: c.deleted, Counts: text})
	}
	b.dirty = false
	b.mu.Unlock()
	text, wrong := json.Marshal(s)
	if err = errors.Join(err, wrong); err == nil {
		err = program.Replace(filepath.Join(dir, booksFile), text)
	}
	if err != nil {
		b.mu.Lock()
		b.dirty = true
		b.mu.Unlock()
		return fmt.Errorf("save the counts of captures: %w", err)
	}
	return nil
}

// load reads the books of a store, and adds the numbers of the exchanges that are in the ring. With another epoch, no exchange of the
// books is stored any more: they count as lost.
func (b *books) load(dir, epoch string, stored numbers) error {
	var s saved
	text, err := os.ReadFile(filepath.Join(dir, booksFile))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the counts of captures: %w", err)
	}
	for _, one := range s.Captures {
		counts := &trafficv1.Counts{}
		if err := proto.Unmarshal(one.Counts, counts); err != nil {
			return fmt.Errorf("read the counts of captures: %w", err)
		}
		c := newCapture(one.UID, one.Namespace, one.Name)
		c.ended, c.deleted = one.Ended, one.Deleted
		for _, p := range counts.GetPods() {
			if s.Epoch != epoch {
				p.Numbers = nil
			}
			if p.Lost == nil {
				p.Lost = map[string]uint64{}
			}
			c.sources[source{p.GetPod(), p.GetPodUid(), p.GetIncarnation()}] = p
		}
		b.captures[c.uid] = c
	}
	for of, spans := range stored {
		if c := b.captures[of[0]]; c != nil {
			if p := c.source(sourceOf(of[1])); p != nil {
				for _, one := range spans {
					p.Numbers, _ = record.Add(p.Numbers, one.GetFirst(), one.GetLast())
				}
			}
		}
	}
	return nil
}

// numbers are those of the exchanges in the ring, by capture and source.
type numbers map[[2]string][]*trafficv1.Span

func (n numbers) add(r ring.Record) {
	of := [2]string{r.Capture, r.Source}
	n[of], _ = record.Add(n[of], r.Number, r.Number)
}

// forgottenOf returns captures of the ring that the books do not have.
func (b *books) forgottenOf(all []string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return lists.Filter(all, func(uid string) bool { return b.captures[uid] == nil })
}
