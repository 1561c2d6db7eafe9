package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/routeserver/page"
)

// trail is the content of the page of the audit trail. Type is that of the entries; empty: all.
type trail struct {
	Type  string
	Rows  []model.Event
	Pages page.Pages
}

// before is the parameter with the last entry of the former page: its time in nanoseconds, and its ID.
const before = "before"

// sameTime is how many entries of one time a page can begin after.
const sameTime = 50

// listEvents shows the audit trail to an administrator, the newest entries first.
func (r *request) listEvents() error {
	if !r.admin() {
		return refusal(http.StatusForbidden, "No access", "The audit trail is for administrators. Ask one for role admin.")
	}
	q, query := r.URL.Query(), model.EventQuery{Limit: pageSize + 1 + sameTime}
	t := trail{Type: strings.TrimSpace(q.Get("type"))}
	if t.Type != "" {
		query.Types = []string{t.Type}
	}
	at, id := cursor(q.Get(before))
	if id != "" {
		query.To = at.Add(1)
	}
	all, err := r.Store.Events(r.Context(), r.by.Org, query)
	if err != nil {
		return err
	}
	for _, e := range all {
		if id != "" && e.At.Equal(at) && e.ID >= id {
			continue // it is on the former page
		}
		if len(t.Rows) == pageSize {
			last := t.Rows[pageSize-1]
			q.Set(before, fmt.Sprintf("%d-%s", last.At.UnixNano(), last.ID))
			t.Pages.Next = r.URL.EscapedPath() + "?" + q.Encode()
			break
		}
		t.Rows = append(t.Rows, e)
	}
	return r.show(http.StatusOK, "/audit", "Audit", "audit", t)
}

// object returns the name of the object of an entry; empty: its data has none.
func object(e model.Event) string {
	var of struct{ Name, ID, Cluster, Owner string }
	_ = json.Unmarshal(e.Data, &of) // data can be no object
	return cmp.Or(of.Name, of.Cluster, of.Owner, of.ID)
}

// cursor returns the entry that a page begins after; "": there is none.
func cursor(text string) (at time.Time, id string) {
	var nano int64
	first, id, _ := strings.Cut(text, "-")
	if _, err := fmt.Sscanf(first, "%d", &nano); err != nil {
		return at, ""
	}
	return time.Unix(0, nano), id
}
