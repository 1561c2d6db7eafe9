// Package census finds the parts of sandboxes that a cache does not have.
package census

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// Census finds parts of sandboxes that the cache does not have. The API server has no index of owners: it
// scans all objects of a kind, so that one query for each of n sandboxes scans n² objects. Instead,
// sandboxes that are deleted at about the same time share a query. Each gets only results of a query that
// began after its request.
type Census struct {
	live client.Reader
	// Again requeues sandboxes that have a result; if it is nil, no controller reads it, and each request
	// is answered at once.
	Again chan event.GenericEvent

	mu     sync.Mutex
	stages map[string]*looks
}

// looks are the queries for one stage.
type looks struct {
	// waiting are the sandboxes that asked since the last query began.
	waiting map[types.UID]string
	// found are the results that were not read yet.
	found map[types.UID]answer
	// forgotten are the sandboxes that were forgotten during the current query: their results are dropped.
	forgotten map[types.UID]bool
	// busy is set during a query, and until the next query is allowed.
	busy bool
}

// answer lists the remaining parts of a sandbox at a time.
type answer struct {
	left []client.Object
	err  error
	at   time.Time
}

const (
	// betweenLooks is the minimum time between two queries for the same stage.
	betweenLooks = 250 * time.Millisecond
	// together is the number of sandboxes in one query: their names fit into a request.
	together = 100
	// answerGood is the time for which an unread result is kept. No part is created for a sandbox that is
	// being deleted (apply.Apply), so results stay valid; this removes results that are never read.
	answerGood = time.Minute
	// lookWithin is the timeout of one query.
	lookWithin = 30 * time.Second
)

// New returns a census that queries live.
func New(live client.Reader) *Census {
	return &Census{live: live, stages: map[string]*looks{}}
}

// Left returns the objects of these kinds that a sandbox owns; false if they are not known yet: Again
// requeues the sandbox later.
func (c *Census) Left(ctx context.Context, s *crdv1.SignadotSandbox, kinds []string) ([]client.Object, bool, error) {
	c.mu.Lock()
	l := c.of(kinds)
	if a, ok := l.take(s.UID); ok {
		c.mu.Unlock()
		return a.left, true, a.err
	}
	l.waiting[s.UID] = s.Name
	if l.busy {
		c.mu.Unlock()
		return nil, false, nil
	}
	l.busy = true
	c.mu.Unlock()
	c.look(ctx, kinds)
	c.mu.Lock()
	defer c.mu.Unlock()
	if l.busy = c.Again != nil; l.busy {
		go c.goOn(kinds)
	}
	a, ok := l.take(s.UID)
	return a.left, ok, a.err
}

// Forget drops results and requests of a sandbox: it still has parts of these kinds, and asks again after
// they are deleted.
func (c *Census) Forget(s *crdv1.SignadotSandbox, kinds []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.of(kinds)
	delete(l.found, s.UID)
	delete(l.waiting, s.UID)
	if l.busy {
		l.forgotten[s.UID] = true
	}
}

// of returns the queries for a stage. c.mu must be locked.
func (c *Census) of(kinds []string) *looks {
	l := c.stages[kinds[0]]
	if l == nil {
		l = &looks{waiting: map[types.UID]string{}, found: map[types.UID]answer{}, forgotten: map[types.UID]bool{}}
		c.stages[kinds[0]] = l
	}
	return l
}

// take removes and returns the result for a sandbox, if there is a valid one. The lock of the census must
// be held.
func (l *looks) take(sandbox types.UID) (answer, bool) {
	a, ok := l.found[sandbox]
	delete(l.found, sandbox)
	return a, ok && time.Since(a.at) < answerGood
}

// goOn queries again while sandboxes wait, and requeues those that have a result.
func (c *Census) goOn(kinds []string) {
	for {
		time.Sleep(betweenLooks)
		c.mu.Lock()
		l := c.of(kinds)
		l.busy = len(l.waiting) > 0
		busy := l.busy
		c.mu.Unlock()
		if !busy {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), lookWithin)
		for _, name := range c.look(ctx, kinds) {
			select {
			case c.Again <- event.GenericEvent{Object: &crdv1.SignadotSandbox{ObjectMeta: metav1.ObjectMeta{Name: name}}}:
			case <-ctx.Done(): // It comes again by itself.
			}
		}
		cancel()
	}
}

// look runs one query for the waiting sandboxes, and returns their names.
func (c *Census) look(ctx context.Context, kinds []string) []string {
	c.mu.Lock()
	l := c.of(kinds)
	asked := map[types.UID]string{}
	for uid, name := range l.waiting {
		if len(asked) < together {
			asked[uid] = name
			delete(l.waiting, uid)
		}
	}
	clear(l.forgotten)
	maps.DeleteFunc(l.found, func(_ types.UID, a answer) bool { return time.Since(a.at) >= answerGood })
	c.mu.Unlock()
	at := time.Now()
	left, err := c.ask(ctx, kinds, asked)
	c.mu.Lock()
	defer c.mu.Unlock()
	for uid := range asked {
		if !l.forgotten[uid] {
			l.found[uid] = answer{left[uid], err, at}
		}
	}
	return slices.Collect(maps.Values(asked))
}

// ask lists the remaining parts of sandboxes at the API server.
func (c *Census) ask(ctx context.Context, kinds []string, asked map[types.UID]string) (map[types.UID][]client.Object, error) {
	var names []string
	for _, name := range asked {
		names = append(names, crdv1.LabelValue(name))
	}
	theirs, err := labels.NewRequirement(crdv1.LabelSandbox, selection.In, names)
	if err != nil {
		return nil, fmt.Errorf("list the remaining parts of sandboxes: %w", err)
	}
	out := map[types.UID][]client.Object{}
	for _, k := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(crdv1.GroupVersion().WithKind(k + "List"))
		if err := c.live.List(ctx, list, client.MatchingLabelsSelector{Selector: labels.NewSelector().Add(*theirs)}); err != nil {
			return nil, fmt.Errorf("list the remaining parts of %d sandboxes that are being deleted: %w", len(asked), err)
		}
		for i := range list.Items {
			for uid := range asked {
				if apply.IsOwned(&list.Items[i], uid) {
					out[uid] = append(out[uid], &list.Items[i])
				}
			}
		}
	}
	return out, nil
}
