// Package identity names users of the control plane as a cluster knows them:
//
//	user    switchyard:controlplane:<organisation>:<name>
//	groups  switchyard:controlplane:<organisation> and switchyard:controlplane:<organisation>:<role>
//
// A cluster administrator binds Roles to these groups. No token of the cluster's own may have the
// prefix.
package identity

import (
	"fmt"
	"strings"

	crdv1 "switchyard.dev/protos/crd/v1"
	linkv1 "switchyard.dev/protos/gen/link/v1"
	"switchyard.dev/tunnels/identity"
)

// Prefix is that of all users and groups of the control plane.
const Prefix = crdv1.ControlPlanePrefix

const maxName, maxRoles = 128, 32

// Of returns the user of a caller of an organisation. The control plane itself has the name of the
// organisation and no groups.
func Of(organisation string, c *linkv1.Caller) (identity.User, error) {
	if err := Valid("organisation", organisation); err != nil {
		return identity.User{}, err
	}
	all := Prefix + organisation
	if c.GetName() == "" {
		return identity.User{Name: all}, nil
	}
	if err := Valid("user", c.GetName()); err != nil {
		return identity.User{}, err
	}
	if len(c.GetRoles()) > maxRoles {
		return identity.User{}, fmt.Errorf("the user has %d roles, at most %d are accepted", len(c.GetRoles()), maxRoles)
	}
	u := identity.User{Name: all + ":" + c.GetName(), Groups: []string{all}}
	for _, role := range c.GetRoles() {
		if err := Valid("role", role); err != nil {
			return identity.User{}, err
		}
		u.Groups = append(u.Groups, all+":"+role)
	}
	return u, nil
}

// Valid returns an error for a name that is empty, too long, or could be read as several. Names may be
// addresses of mail. what describes it: organisation, cluster, user or role.
func Valid(what, part string) error {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._@+"
	if part == "" || len(part) > maxName || strings.ContainsFunc(part, func(r rune) bool { return !strings.ContainsRune(letters, r) }) {
		return fmt.Errorf("the name of the %s is not valid: it has 1 to %d letters, digits and -._@+", what, maxName)
	}
	return nil
}
