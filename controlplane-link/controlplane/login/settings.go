package login

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"slices"

	"sigs.k8s.io/yaml"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/identity"
)

// Settings are the content of the file of settings.
type Settings struct {
	// Issuer is the URL of the issuer, exactly as in its tokens. ClientSecretFile is read at each login; empty:
	// the client has no secret. CAFile has the authorities of the issuer in PEM; empty: those of the system.
	Issuer, ClientID, ClientSecretFile, CAFile string
	// Scopes default to openid, email, profile and groups.
	Scopes []string
	// TrustEmail accepts addresses that the issuer does not report as verified.
	TrustEmail bool
	// Mappings give persons a role in an organisation. The first that matches counts; none by default.
	Mappings []Mapping
}

// Mapping gives a role in an organisation to persons with a value in a claim, by default in groups.
type Mapping struct {
	Claim, Value, Organisation string
	Role                       model.Role
}

// Read reads a file of settings, in YAML. Unknown fields are errors.
func Read(path string) (*Settings, error) {
	s := &Settings{}
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.UnmarshalStrict(text, s)
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return nil, fmt.Errorf("settings of logins in %s: %w", path, err)
	}
	return s, nil
}

// check sets defaults, and returns an error for settings that are not valid.
func (s *Settings) check() error {
	if len(s.Scopes) == 0 {
		s.Scopes = []string{"openid", "email", "profile", "groups"}
	}
	if u, err := url.Parse(s.Issuer); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("issuer %q is not a URL like https://issuer.example.com", s.Issuer)
	}
	if s.ClientID == "" || !slices.Contains(s.Scopes, "openid") {
		return fmt.Errorf("clientID is missing, or scopes lack openid: register the control plane at %s", s.Issuer)
	}
	for i := range s.Mappings {
		m := &s.Mappings[i]
		m.Claim = cmp.Or(m.Claim, "groups")
		if m.Value == "" || m.Role != model.RoleAdmin && m.Role != model.RoleMember || identity.Valid("organisation", m.Organisation) != nil {
			return fmt.Errorf("mappings[%d] needs value, the name of an organisation, and role admin or member", i)
		}
	}
	return nil
}

// mapped returns the first mapping that matches a person's claims; nil: none.
func (s *Settings) mapped(c claims) *Mapping {
	for i, m := range s.Mappings {
		if slices.Contains(c[m.Claim], m.Value) {
			return &s.Mappings[i]
		}
	}
	return nil
}
