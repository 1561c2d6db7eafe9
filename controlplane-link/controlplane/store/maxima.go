package store

import (
	"context"
	"fmt"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/database"
)

// maximum is how many rows, or bytes of them, there can be.
type maximum struct {
	most  int64
	what  string
	count string // the statement that counts them
}

// The maxima of an organisation, or of the owner that the text names. They bound lists and the database; a team has
// far less. Maximum sizes of texts are those of package rest/decode and of the compiler.
var (
	clusters      = maximum{250, "clusters", countClusters}
	clusterTokens = maximum{16, "tokens of the cluster", countCredentials} // one is enough, and a second one to replace it
	accounts      = maximum{500, "service accounts", countAccounts}
	apiKeys       = maximum{50, "API keys of the owner", countCredentials}
	sandboxes     = maximum{5000, "sandboxes", countObjects}
	routeGroups   = maximum{1000, "route groups", countObjects}
	versions      = maximum{1000, "versions of resource plugins", countPlugins}
	secrets       = maximum{1000, "secrets", countSecrets}
	devboxes      = maximum{2000, "devboxes", countDevboxes}
	// Specifications of less than smallSpec are not checked: those of 5,000 sandboxes have 20 MiB.
	objectBytes = maximum{16 << 20, "bytes of specifications of this kind", sumObjects}
	pluginBytes = maximum{16 << 20, "bytes of resource plugins", sumPlugins}
)

// maxDeviceLogins is how many can be pending in the installation.
const smallSpec, maxDeviceLogins = 4 << 10, 1000

// check fails with model.ErrTooMany if a write has exceeded a maximum. key selects the rows.
func (t *tx) check(o thing, key []any, maxima ...maximum) {
	for _, m := range maxima {
		if n := one(t, o, database.Column[int64], m.count, key...); n > m.most {
			t.fail(o.of(fmt.Errorf("%w %s: the maximum is %d; delete one first", model.ErrTooMany, m.what, m.most)))
		}
	}
}

// Enough fails with model.ErrTooMany if a write of another package has exceeded the maximum of an organisation; query counts.
func Enough(ctx context.Context, t *database.Tx, what string, most int64, query, org string) error {
	n, err := database.One(ctx, t, database.Column[int64], query, org)
	if err == nil && n > most {
		return fmt.Errorf("%w %s: the maximum is %d; delete one first", model.ErrTooMany, what, most)
	}
	return err
}

// insert adds a row to those that maxima count.
func (t *tx) insert(o thing, key []any, maxima []maximum, query string, args ...any) {
	t.must(model.ErrExists, o, query, args...)
	t.check(o, key, maxima...)
}

// maximaOf returns the maxima that a write of an object can exceed.
func maximaOf(o object, isNew bool) (all []maximum) {
	if isNew {
		all = append(all, map[Kind]maximum{Sandbox: sandboxes, RouteGroup: routeGroups}[o.kind])
	}
	if len(o.Spec) >= smallSpec {
		all = append(all, objectBytes)
	}
	return all
}
