package store

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

// Entry returns the entry of a write of a caller for the audit trail. data has no secret, and becomes JSON.
func Entry(by model.Caller, what string, at time.Time, data map[string]any) model.Event {
	text, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("event %s: %v", what, err)) // the write must not happen without its entry
	}
	return model.Event{Org: by.Org, ID: rand.Text(), Type: what, At: at, By: by.Principal, Role: by.Role, Method: by.Method, Masked: by.Masked, Data: text}
}

// Specified is the entry of a specification in the audit trail, to which a store adds the generation. It has
// a digest only, because a specification can have secrets, such as values of variables.
func Specified(name string, text json.RawMessage) map[string]any {
	sum := sha256.Sum256(text)
	return map[string]any{"name": name, "sha256": hex.EncodeToString(sum[:])}
}

// Record adds an event without a write, such as a login that was refused.
func (s *Store) Record(ctx context.Context, ev model.Event) error {
	return s.transact(ctx, ev, func(*tx) {})
}

// eventsAtOnce is how many entries one transaction deletes: other writes wait for it.
var eventsAtOnce int64 = 1000

// DeleteEvents deletes the entries of the audit trail of an organisation from before a time, and returns
// how many.
func (s *Store) DeleteEvents(ctx context.Context, org string, before time.Time) (all int64, err error) {
	for n := eventsAtOnce; err == nil && n == eventsAtOnce; all += n {
		n, err = s.db.Observe(ctx, deleteEvents, org, before, eventsAtOnce)
	}
	return all, err
}

func scanEvent(r database.Row) (e model.Event, err error) {
	return e, r.Scan(&e.ID, &e.Org, &e.At, &e.Type, &e.By.Kind, &e.By.ID, &e.By.Name, &e.Method, &e.Masked, &e.Data)
}

// maxPage is how much data the entries of one answer have, in bytes.
const maxPage = 4 << 20

// Events returns entries of the audit trail of an organisation, the newest first. It returns fewer than the
// limit if their data has more than 4 MiB, and at least one.
func (s *Store) Events(ctx context.Context, org string, q model.EventQuery) ([]model.Event, error) {
	query, args := strings.Builder{}, []any{org}
	query.WriteString(selectEvents)
	where := func(condition string, v any, selects bool) {
		if selects {
			args = append(args, v)
			fmt.Fprintf(&query, condition, len(args))
		}
	}
	where(eventsFrom, q.From, !q.From.IsZero())
	where(eventsTo, q.To, !q.To.IsZero())
	where(eventsKind, q.Kind, q.Kind != "")
	where(eventsBy, q.PrincipalID, q.PrincipalID != "")
	where(eventsMethod, q.Method, q.Method != "")
	if len(q.Types) > 0 {
		var among []string
		for _, of := range q.Types {
			args = append(args, of)
			among = append(among, fmt.Sprintf("$%d", len(args)))
		}
		fmt.Fprintf(&query, eventsTypes, strings.Join(among, ", "))
	}
	where(eventsNewest, max(q.Limit, 1), true)
	size := 0
	scan := func(r database.Row) (e model.Event, err error) {
		e, err = scanEvent(r)
		if size > 0 && size+len(e.Data) > maxPage {
			return e, database.ErrEnough
		}
		size += len(e.Data)
		return e, err
	}
	return database.List(ctx, s.db.Reads(), scan, query.String(), args...)
}
