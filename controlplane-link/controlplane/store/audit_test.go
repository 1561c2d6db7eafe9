package store

import (
	"fmt"
	"testing"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
)

// TestManyOldEventsAreDeleted in several transactions.
func TestManyOldEventsAreDeleted(t *testing.T) {
	defer func(before int64) { eventsAtOnce = before }(eventsAtOnce)
	eventsAtOnce = 4
	for name, c := range places(t) {
		t.Run(name, func(t *testing.T) {
			s, err := Open(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			for n := range 12 {
				if err := s.Record(t.Context(), model.Event{Org: "acme", ID: fmt.Sprint(n), At: time.Unix(int64(n), 0)}); err != nil {
					t.Fatal(err)
				}
			}
			_, before := s.Transactions()
			n, err := s.DeleteEvents(t.Context(), "acme", time.Unix(10, 0))
			if _, after := s.Transactions(); n != 10 || err != nil || after != before+3 {
				t.Errorf("%d entries in %d transactions, %v", n, after-before, err)
			}
			if kept, err := s.Events(t.Context(), "acme", model.EventQuery{Limit: 9}); len(kept) != 2 || kept[1].ID != "10" {
				t.Errorf("%+v, %v", kept, err)
			}
		})
	}
}
