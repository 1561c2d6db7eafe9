package signed_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"switchyard.dev/tunnels/credential/signed"
	"switchyard.dev/tunnels/identity"
)

var (
	prod = signed.Cluster{Organisation: "acme", Name: "prod"}
	jo   = identity.User{Name: "switchyard:controlplane:acme:jo", Groups: []string{"switchyard:controlplane:acme", "switchyard:controlplane:acme:dev"}}
	now  = time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
)

// key returns a private key, and the set with its public half.
func key(t *testing.T, seed byte) (ed25519.PrivateKey, signed.Keys) {
	t.Helper()
	private := ed25519.NewKeyFromSeed(slices.Repeat([]byte{seed}, ed25519.SeedSize))
	keys, err := signed.KeysOf(private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return private, keys
}

func issue(t *testing.T, k ed25519.PrivateKey) string {
	t.Helper()
	credential, expires, err := signed.Issue(k, prod, jo, now)
	if err != nil || !expires.Equal(now.Add(signed.Lifetime)) {
		t.Fatalf("expires at %s: %v", expires, err)
	}
	return credential
}

func TestACredentialIsItsUsersUntilItExpires(t *testing.T) {
	private, keys := key(t, 1)
	credential := issue(t, private)
	for _, at := range []time.Time{now, now.Add(10*time.Minute - time.Second), now.Add(-time.Minute)} {
		user, err := keys.Check(prod, credential, at)
		if err != nil || user.Name != jo.Name || !slices.Equal(user.Groups, jo.Groups) || user.UID != "" || user.Extra != nil {
			t.Errorf("at %s: %+v, %v", at, user, err)
		}
	}
	other, _ := key(t, 2)
	another, err := signed.KeysOf(private.Public().(ed25519.PublicKey), other.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range []ed25519.PrivateKey{private, other} {
		if _, err := another.Check(prod, issue(t, k), now); err != nil {
			t.Errorf("while a key is replaced: %v", err)
		}
	}
}

func TestCredentialsAreRefusedWithAReason(t *testing.T) {
	private, keys := key(t, 1)
	other, otherKeys := key(t, 2)
	credential := issue(t, private)
	for what, c := range map[string]struct {
		keys       signed.Keys
		cluster    signed.Cluster
		credential string
		at         time.Time
		want       string
	}{
		"expired":                   {keys, prod, credential, now.Add(10 * time.Minute), "expired at 2026-11-29T12:10:00Z"},
		"from the future":           {keys, prod, credential, now.Add(-62 * time.Second), "set the clocks"},
		"of another cluster":        {keys, signed.Cluster{Organisation: "acme", Name: "test"}, credential, now, `this is cluster "acme/test"`},
		"of another organisation":   {keys, signed.Cluster{Organisation: "evil", Name: "prod"}, credential, now, `this is cluster "evil/prod"`},
		"of another key":            {keys, prod, issue(t, other), now, "no key of the control plane"},
		"of a removed key":          {otherKeys, prod, credential, now, "no key of the control plane"},
		"with no keys":              {signed.Keys{}, prod, credential, now, "no key of the control plane"},
		"with a changed signature":  {keys, prod, credential[:len(credential)-6] + "AAAAAA", now, "signature"},
		"with no signature":         {keys, prod, credential[:strings.LastIndex(credential, ".")+1], now, ""},
		"with another's payload":    {keys, prod, spliced(credential, issue(t, other)), now, "signature"},
		"of nothing":                {keys, prod, "", now, "not a token signed with Ed25519"},
		"of junk":                   {keys, prod, "a.b.c", now, "not a token signed with Ed25519"},
		"in the form of JSON":       {keys, prod, `{"payload":"e30","signatures":[]}`, now, "not a token signed with Ed25519"},
		"without an organisation":   {keys, signed.Cluster{Name: "prod"}, credential, now, ""},
		"without any cluster known": {keys, signed.Cluster{}, credential, now, ""},
	} {
		user, err := c.keys.Check(c.cluster, c.credential, c.at)
		if err == nil || !strings.Contains(err.Error(), c.want) || user.Name != "" {
			t.Errorf("%s: %+v, %v", what, user, err)
		}
	}
	var unknown *signed.UnknownKeyError
	if _, err := keys.Check(prod, issue(t, other), now); !errors.As(err, &unknown) {
		t.Errorf("a key that could be newer is not reported as unknown: %v", err)
	}
}

// spliced returns the header and signature of one token with the payload of another.
func spliced(a, b string) string {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	y[1] = strings.ToUpper(y[1])
	return x[0] + "." + y[1] + "." + x[2]
}

// TestClaimsOfAnotherMakeAreRefused signs with the right key what Issue would not.
func TestClaimsOfAnotherMakeAreRefused(t *testing.T) {
	private, keys := key(t, 1)
	var set struct{ Keys []struct{ Kid string } }
	if err := json.Unmarshal([]byte(keys.String()), &set); err != nil || set.Keys[0].Kid == "" {
		t.Fatalf("%s: %v", keys, err)
	}
	sign := func(kind string, change func(map[string]any)) string {
		t.Helper()
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: jose.JSONWebKey{Key: private, KeyID: set.Keys[0].Kid}}, (&jose.SignerOptions{}).WithType(jose.ContentType(kind)))
		if err != nil {
			t.Fatal(err)
		}
		claims := map[string]any{"iss": signed.Issuer, "sub": jo.Name, "aud": "acme/prod", "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "groups": jo.Groups}
		change(claims)
		text, err := jwt.Signed(signer).Claims(claims).Serialize()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	const kind = "switchyard-credential+jwt"
	if _, err := keys.Check(prod, sign(kind, func(map[string]any) {}), now); err != nil {
		t.Fatal(err)
	}
	if _, err := keys.Check(prod, sign("JWT", func(map[string]any) {}), now); err == nil || !strings.Contains(err.Error(), "no credential") {
		t.Errorf("of another type: %v", err)
	}
	for what, c := range map[string]struct {
		key   string
		value any
		want  string
	}{
		"another issuer":            {"iss", "https://example.com", "no credential"},
		"no audience":               {"aud", nil, "is for cluster"},
		"two audiences":             {"aud", []string{"acme/prod", "acme/test"}, "is for cluster"},
		"no expiry":                 {"exp", nil, "does not state"},
		"no time of issue":          {"iat", nil, "does not state"},
		"eleven minutes":            {"exp", now.Add(11 * time.Minute).Unix(), "is valid for 11m"},
		"not before":                {"nbf", now.Add(5 * time.Minute).Unix(), "set the clocks"},
		"a user of the cluster":     {"sub", "system:admin", `only names that begin with "switchyard:controlplane:acme:"`},
		"a user of another org":     {"sub", "switchyard:controlplane:evil:jo", "only names that begin with"},
		"an org that begins alike":  {"sub", "switchyard:controlplane:acme2:jo", "only names that begin with"},
		"the control plane itself":  {"sub", "switchyard:controlplane:acme", "only names that begin with"},
		"an empty name":             {"sub", "switchyard:controlplane:acme:", "only names that begin with"},
		"no user":                   {"sub", nil, "only names that begin with"},
		"a group of the cluster":    {"groups", []string{"switchyard:controlplane:acme", "system:masters"}, `group "system:masters"`},
		"a group of another org":    {"groups", []string{"switchyard:controlplane:evil"}, "group"},
		"an empty group":            {"groups", []string{""}, "group"},
		"a group that begins alike": {"groups", []string{"switchyard:controlplane:acme2"}, "group"},
		"65 groups":                 {"groups", slices.Repeat([]string{"switchyard:controlplane:acme"}, 65), "65 groups"},
		"groups that are no list":   {"groups", "system:masters", "cannot be read"},
	} {
		user, err := keys.Check(prod, sign(kind, func(m map[string]any) {
			if m[c.key] = c.value; c.value == nil {
				delete(m, c.key)
			}
		}), now)
		if err == nil || !strings.Contains(err.Error(), c.want) || user.Name != "" {
			t.Errorf("%s: %+v, %v", what, user, err)
		}
	}
}

func TestOnlyUsersOfTheOrganisationGetACredential(t *testing.T) {
	private, _ := key(t, 1)
	for what, user := range map[string]identity.User{
		"of the cluster": {Name: "ada"}, "of another organisation": {Name: "switchyard:controlplane:evil:jo"},
		"with a group of the cluster": {Name: jo.Name, Groups: []string{"system:masters"}},
	} {
		if credential, _, err := signed.Issue(private, prod, user, now); err == nil || credential != "" {
			t.Errorf("a user %s gets one", what)
		}
	}
	if _, _, err := signed.Issue(nil, prod, jo, now); err == nil {
		t.Error("no key signs")
	}
}

func TestKeySetsHavePublicKeysOfEd25519Only(t *testing.T) {
	private, keys := key(t, 1)
	if strings.Contains(keys.String(), `"d"`) {
		t.Errorf("the set has a private key: %s", keys)
	}
	again, err := signed.ParseKeys([]byte(keys.String()))
	if err != nil || again.String() != keys.String() {
		t.Errorf("%s came back as %s: %v", keys, again, err)
	}
	if none, err := signed.ParseKeys([]byte(signed.Keys{}.String())); err != nil || none.String() != `{"keys":[]}` {
		t.Errorf("the empty set came back as %s: %v", none, err)
	}
	secret, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: private, KeyID: "x"}}})
	if err != nil {
		t.Fatal(err)
	}
	many, err := json.Marshal(jose.JSONWebKeySet{Keys: slices.Repeat([]jose.JSONWebKey{{Key: private.Public()}}, 17)})
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"a private key": string(secret), "a symmetric key": `{"keys":[{"kty":"oct","k":"c2VjcmV0","kid":"x"}]}`,
		"17 keys": string(many), "no set": "[]", "no JSON": "x", "a key of no kind": `{"keys":[{"kid":"x"}]}`,
	} {
		if got, err := signed.ParseKeys([]byte(text)); err == nil {
			t.Errorf("%s is accepted: %s", what, got)
		}
	}
	// The ID is that of the key, whatever the set states.
	renamed := strings.Replace(keys.String(), `"kid":"`, `"kid":"another`, 1)
	if again, err = signed.ParseKeys([]byte(renamed)); err != nil || again.String() != keys.String() {
		t.Errorf("%s: %v", again, err)
	}
}
