package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/workflows/spec"
)

// TestMaxima lowers each maximum to two and adds until the store refuses. A write of an object that is there
// does not count.
func TestMaxima(t *testing.T) {
	ctx, big := t.Context(), json.RawMessage(`{"x":"`+strings.Repeat("x", smallSpec)+`"}`)
	user, org := model.Principal{Kind: model.KindUser}, "" // those of a row
	ids := 0
	ev := func() model.Event {
		ids++
		return model.Event{Org: org, ID: fmt.Sprint("e", ids), Type: "test"}
	}
	object := func(name string, text json.RawMessage) model.Sandbox {
		ids++
		return model.Sandbox{Org: org, Name: name, Cluster: "c0", RoutingKey: fmt.Sprint("key", ids), Spec: text}
	}
	group := func(name string) model.RouteGroup {
		ids++
		return model.RouteGroup{Org: org, Name: name, RoutingKey: fmt.Sprint("key", ids), Spec: json.RawMessage("{}")}
	}
	rows := []struct {
		of   *maximum
		most int64
		add  func(s *Store, name string) error
	}{
		{&clusters, 2, func(s *Store, name string) error {
			return s.CreateCluster(ctx, model.Cluster{Org: org, Name: "c" + name}, ev())
		}},
		{&clusterTokens, 2, func(s *Store, name string) error {
			return s.CreateClusterToken(ctx, model.ClusterToken{Org: org, Cluster: "c0", ID: org + "t" + name, Digest: model.DigestOf(org + "t" + name)}, ev())
		}},
		{&accounts, 2, func(s *Store, name string) error {
			return s.CreateServiceAccount(ctx, model.ServiceAccount{Org: org, Name: name}, ev())
		}},
		{&apiKeys, 2, func(s *Store, name string) error {
			return s.CreateAPIKey(ctx, model.APIKey{Org: org, Owner: user, ID: org + "k" + name, Digest: model.DigestOf(org + "k" + name)}, ev())
		}},
		{&sandboxes, 2, func(s *Store, name string) error {
			_, err := s.PutSandbox(ctx, object("s"+name, json.RawMessage("{}")), ev())
			if err == nil {
				_, err = s.PutSandbox(ctx, object("s"+name, json.RawMessage("{}")), ev())
			}
			return err
		}},
		{&routeGroups, 2, func(s *Store, name string) error {
			_, err := s.PutRouteGroup(ctx, group("g"+name), ev())
			return err
		}},
		{&objectBytes, int64(2*len(big) + 100), func(s *Store, name string) error {
			_, err := s.PutSandbox(ctx, object("b"+name, big), ev())
			return err
		}},
		{&versions, 2, func(s *Store, name string) error {
			return s.CreatePlugin(ctx, model.Plugin{Org: org, Name: spec.PluginName{Bare: "p", Version: "1.0." + name}, Spec: json.RawMessage("{}")}, ev())
		}},
		{&pluginBytes, int64(2*len(big) + 100), func(s *Store, name string) error {
			return s.CreatePlugin(ctx, model.Plugin{Org: org, Name: spec.PluginName{Bare: "q", Version: "1.0." + name}, Spec: big}, ev())
		}},
		{&secrets, 2, func(s *Store, name string) error {
			return s.CreateSecret(ctx, model.Secret{Org: org, Name: name}, ev())
		}},
		{&devboxes, 2, func(s *Store, name string) error {
			_, err := s.RegisterDevbox(ctx, model.Devbox{Org: org, ID: "d" + name}, ev())
			if err == nil {
				_, err = s.RegisterDevbox(ctx, model.Devbox{Org: org, ID: "d" + name}, ev())
			}
			return err
		}},
	}
	for name, c := range places(t) {
		s, err := Open(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, tt := range rows {
			t.Run(name+"/"+tt.of.what, func(t *testing.T) {
				ids++
				org, user.ID = fmt.Sprint("org", ids), fmt.Sprint("user", ids)
				err := errors.Join(s.CreateOrganisation(ctx, model.Organisation{Name: org}, ev()), s.PutUser(ctx, model.User{Org: org, ID: user.ID}, ev()))
				if err == nil && tt.of != &clusters {
					err = s.CreateCluster(ctx, model.Cluster{Org: org, Name: "c0"}, ev())
				}
				if err != nil {
					t.Fatal(err)
				}
				defer func(before int64) { tt.of.most = before }(tt.of.most)
				tt.of.most = tt.most
				for n := range 2 {
					if err := tt.add(s, fmt.Sprint(n)); err != nil {
						t.Fatalf("object %d: %v", n+1, err)
					}
				}
				for range 2 { // the refused one is not kept
					if err := tt.add(s, "2"); !errors.Is(err, model.ErrTooMany) || !strings.Contains(err.Error(), "too many "+tt.of.what+": the maximum is ") {
						t.Errorf("one more: %v", err)
					}
				}
			})
		}
	}
}
