package identity_test

import (
	"slices"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/identity"
	linkv1 "switchyard.dev/protos/gen/link/v1"
)

func TestUsersOfTheControlPlane(t *testing.T) {
	for name, c := range map[string]struct {
		organisation string
		caller       *linkv1.Caller
		user         string // empty: refused
		groups       []string
	}{
		"a user":                       {"acme", &linkv1.Caller{Name: "jo@acme.com", Roles: []string{"dev", "admin"}}, "switchyard:controlplane:acme:jo@acme.com", []string{"switchyard:controlplane:acme", "switchyard:controlplane:acme:dev", "switchyard:controlplane:acme:admin"}},
		"the control plane":            {"acme", &linkv1.Caller{}, "switchyard:controlplane:acme", nil},
		"no caller":                    {"acme", nil, "switchyard:controlplane:acme", nil},
		"no organisation":              {"", &linkv1.Caller{Name: "jo"}, "", nil},
		"two parts in one":             {"acme", &linkv1.Caller{Name: "jo:admin"}, "", nil},
		"an organisation with another": {"acme:x", &linkv1.Caller{Name: "jo"}, "", nil},
		"a role with two parts":        {"acme", &linkv1.Caller{Name: "jo", Roles: []string{"a:b"}}, "", nil},
		"an empty role":                {"acme", &linkv1.Caller{Name: "jo", Roles: []string{""}}, "", nil},
		"a line break":                 {"acme", &linkv1.Caller{Name: "jo\nx"}, "", nil},
		"a long name":                  {"acme", &linkv1.Caller{Name: strings.Repeat("x", 129)}, "", nil},
		"many roles":                   {"acme", &linkv1.Caller{Name: "jo", Roles: slices.Repeat([]string{"r"}, 33)}, "", nil},
	} {
		u, err := identity.Of(c.organisation, c.caller)
		if (err != nil) != (c.user == "") || u.Name != c.user || !slices.Equal(u.Groups, c.groups) {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
}
