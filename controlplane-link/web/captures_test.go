package web_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/types/known/timestamppb"

	"switchyard.dev/controlplane-link/controlplane/captures"
	"switchyard.dev/controlplane-link/controlplane/model"
	trafficv1 "switchyard.dev/protos/gen/traffic/v1"
)

// requests stores n requests of a capture, as a recording does.
func (s *site) requests(c captures.Capture, segment, n int) {
	s.Helper()
	var file bytes.Buffer
	for i := range n {
		_, err := protodelim.MarshalTo(&file, &trafficv1.Recorded{Workload: "ForkedWorkload/hotrod/checkout", Exchange: &trafficv1.Exchange{
			Overridden: i == 0, Id: fmt.Sprint(segment, "-", i), Began: timestamppb.Now(), Request: &trafficv1.Message{Method: "GET", Authority: "cart.hotrod", Target: fmt.Sprintf("/%d/%d?q=<b>", segment, i)}, Response: &trafficv1.Message{Status: 418},
		}})
		s.must(err)
	}
	name := fmt.Sprint("f", segment)
	s.must(s.captures.Files.Put(s.Context(), c.Org+"/_captures/"+c.Name+"/"+name, &file))
	for _, statement := range []string{
		`INSERT INTO capture_segments (organisation, capture, number, file, requests, bytes) VALUES ($1, $2, $3, $4, $5, 1)`,
		`UPDATE captures SET segments = $3, requests = requests + $5, message = $4, progress = '{"Ready":true,"Counts":{"seen":9,"stored":9}}' WHERE organisation = $1 AND name = $2`,
	} {
		_, err := s.store.Database().Observe(s.Context(), statement, c.Org, c.Name, int64(segment), name, int64(n))
		s.must(err)
	}
	s.store.Observed(c.Org)
}

// The page of a capture has its newest requests, and changes with them; a person of another organisation sees none.
func TestCaptures(t *testing.T) {
	s := newSite(t)
	p := s.logIn(org, model.RoleMember)
	p.get("/captures").want(http.StatusOK, "No requests are recorded", "/api/v2/orgs/acme/captures -d ")
	now := time.Now().UTC()
	c := captures.Capture{Org: org, Name: "checkout-x", Cluster: "prod", Sandbox: "checkout", CreatedAt: now, Until: now.Add(time.Hour), Author: model.Author{Principal: model.Principal{Name: "jo@example.com"}}}
	s.must(s.captures.Store.Create(t.Context(), c, event("capture.create")))
	p.get("/captures").want(http.StatusOK, "checkout-x", "Pending", "jo@example.com")
	p.get("/captures/checkout-x").want(http.StatusOK, "Pending", "Ends in", "No request is recorded yet").not("/har")
	s.requests(c, 1, 60)
	p.get("/captures/checkout-x").want(http.StatusOK, "Recording", "GET cart.hotrod/1/59?q=<b>", "418", "ForkedWorkload/hotrod/checkout", "9 seen = 9 stored", "answered by an override", "It takes an API key", "/api/v2/orgs/acme/captures/checkout-x/har -o checkout-x.har").not("Only the newest")
	s.requests(c, 2, 60)
	a := p.get("/captures/checkout-x").want(http.StatusOK, "GET cart.hotrod/2/59?q=<b>", "Only the newest 100 of 120").not("/1/19?")
	if text := a.read(); strings.Index(text, "/2/59?") > strings.Index(text, "/1/59?") {
		t.Error("the newest request is not the first one")
	}
	ended := captures.Capture{Org: org, Name: "checkout-y", Cluster: "prod", Sandbox: "checkout", CreatedAt: now, Until: now.Add(time.Hour)}
	s.must(s.captures.Store.Create(t.Context(), ended, event("capture.create")))
	_, err := s.store.Database().Observe(t.Context(), `UPDATE captures SET ended = $2, message = 'there is no member' WHERE name = $1`, ended.Name, now)
	s.must(err)
	p.get("/captures/checkout-y").want(http.StatusOK, "checkout-y Ended there is no member", "Ended just now", "No request was recorded").not("Ends in", "Failed")
	_, err = s.store.Database().Observe(t.Context(), `UPDATE captures SET stopped = $2 WHERE name = $1`, ended.Name, now)
	s.must(err)
	s.store.Observed(org)
	p.get("/captures/checkout-y").want(http.StatusOK, "checkout-y Ended there is no member", "Ended just now").not("state bad")
	other := s.logIn("other", model.RoleAdmin)
	other.get("/captures").want(http.StatusOK, "No requests are recorded")
	other.get("/captures/checkout-x").want(http.StatusNotFound, "There is no capture checkout-x in organisation other").not("418")
}
