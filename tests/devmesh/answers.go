package devmesh

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"switchyard.dev/routeserver/table"
)

// decision is what a request is decided by.
type decision struct {
	workload table.Workload
	key      string
}

// book has the right answers to requests. For each decision it has the answers that were right
// one after the other, and which of them is certain: the ones before it are not right any more
// once its receipt exists.
type book struct {
	mu        sync.Mutex
	decisions map[decision]*answers
}

// answers are those of one decision, oldest first.
type answers struct {
	all []string
	// certain is the index of the answer that has its receipt, since a moment.
	certain int
	at      time.Time
}

func newBook() *book { return &book{decisions: map[decision]*answers{}} }

// of returns the answers of a decision. An unknown key belongs to the baseline. The lock is held.
func (b *book) of(d decision) *answers {
	a := b.decisions[d]
	if a == nil {
		a = &answers{all: []string{baselineOf(d.workload)}}
		b.decisions[d] = a
	}
	return a
}

// begin adds another right answer.
func (b *book) begin(d decision, answer string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.of(d)
	a.all = append(a.all, answer)
}

// receipt makes the newest answer the only right one from now on.
func (b *book) receipt(d decision) {
	b.mu.Lock()
	defer b.mu.Unlock()
	a := b.of(d)
	a.certain, a.at = len(a.all)-1, time.Now()
}

// ask is called when a request is sent. It returns a function that judges the answer: nil, or the
// error of the answer.
func (b *book) ask(d decision) func(answer string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	since, certain := b.of(d).certain, b.of(d).at
	asked := time.Now()
	return func(answer string) error {
		b.mu.Lock()
		defer b.mu.Unlock()
		a := b.of(d)
		if slices.Contains(a.all[since:], answer) {
			return nil
		}
		if before := slices.Index(a.all[:since], answer); before >= 0 {
			return fmt.Errorf("%s, key %q: answered by %q, which had ended: %q had its receipt %s before the request was sent",
				d.workload.Name, d.key, answer, a.all[since], asked.Sub(certain))
		}
		return fmt.Errorf("%s, key %q: answered by %q, want one of %q", d.workload.Name, d.key, answer, a.all[since:])
	}
}
