package credentials_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"switchyard.dev/controlplane-link/credentials"
)

var (
	secret = strings.Repeat("s3cret-", 7)
	sum    = hash(secret)
)

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// entry returns an entry of a list, as YAML.
func entry(sum, rest string) string {
	return fmt.Sprintf("- {sha256: %s, organisation: acme, %s}\n", sum, rest)
}

func TestKeysAreFoundByTheirText(t *testing.T) {
	short := "a-key-of-less-than-32-bytes"
	f, err := credentials.Parse([]byte("apiKeys:\n" +
		entry(strings.ToUpper(sum), "user: jo@acme.com, roles: [dev], clusters: [prod, stage]") +
		entry(hash(short), "user: al, clusters: [prod]") +
		entry(hash(secret+"2"), "user: al, clusters: ['*']") +
		"clusterTokens:\n" + entry(hash("token"), "clusters: [prod]")))
	if err != nil {
		t.Fatal(err)
	}
	jo, al := f.Find(secret), f.Find(secret+"2")
	if jo == nil || jo.User != "jo@acme.com" || jo.Organisation != "acme" || al == nil || al.User != "al" {
		t.Fatalf("found %+v and %+v", jo, al)
	}
	if c := jo.Caller(); c.GetName() != "jo@acme.com" || len(c.GetRoles()) != 1 || !c.GetApiKey() {
		t.Errorf("the caller is %v", c)
	}
	if !jo.Reaches("prod") || !jo.Reaches("stage") || jo.Reaches("test") || jo.Reaches("*") || jo.Reaches("") || !al.Reaches("test") {
		t.Error("the clusters differ from those of the file")
	}
	for _, other := range []string{"", short, "token", secret[1:], secret + " ", sum, strings.ToUpper(sum)} {
		if k := f.Find(other); k != nil {
			t.Errorf("%q is the key of %s", other, k.User)
		}
	}
	if !f.Has(jo, "prod") || f.Has(jo, "test") {
		t.Error("Has differs from the file")
	}
	for what, now := range map[string]string{
		"no key": "", "another user": entry(sum, "user: al, clusters: [prod]"), "another cluster": entry(sum, "user: jo@acme.com, clusters: [test]"),
		"another organisation": strings.ReplaceAll(entry(sum, "user: jo@acme.com, clusters: [prod]"), "acme,", "other,"),
	} {
		changed, err := credentials.Parse([]byte("apiKeys:\n" + now))
		if err != nil {
			t.Fatal(err)
		}
		if changed.Has(jo, "prod") {
			t.Errorf("with %s the key is still there", what)
		}
	}
}

func TestMessagesNameTheEntryAndNoSecret(t *testing.T) {
	good := entry(sum, "user: jo, clusters: [prod]")
	for text, want := range map[string]string{
		"apiKeys:\n" + good + entry(secret, "user: jo, clusters: [prod]"):                   "apiKeys[1]: sha256 is not 64 hexadecimal digits",
		"apiKeys:\n" + entry(sum[:62], "user: jo, clusters: [prod]"):                        "apiKeys[0]: sha256 is not 64",
		"apiKeys:\n" + good + entry(strings.ToUpper(sum), "user: al, clusters: [prod]"):     "apiKeys[1]: sha256 is also that of apiKeys[0]",
		"apiKeys:\n" + good + "clusterTokens:\n" + entry(sum, "clusters: [prod]"):           "clusterTokens[0]: sha256 is also that of apiKeys[0]",
		"apiKeys:\n" + entry(hash(""), "user: jo, clusters: [prod]"):                        "that of an empty secret",
		"apiKeys:\n" + entry(sum, "clusters: [prod]"):                                       "apiKeys[0]: an API key needs user",
		"apiKeys:\n" + entry(sum, "user: jo"):                                               "and in clusters the names",
		"apiKeys:\n" + entry(sum, "user: 'jo:admin', clusters: [prod]"):                     "the name of the user is not valid",
		"apiKeys:\n" + entry(sum, "user: jo, roles: ['a:b'], clusters: [prod]"):             "the name of the role is not valid",
		"apiKeys:\n" + entry(sum, "user: jo, clusters: [prod, '']"):                         "the name of the cluster is not valid",
		"apiKeys:\n- {sha256: " + sum + ", user: jo, clusters: [prod]}\n":                   "the name of the organisation is not valid",
		"clusterTokens:\n" + entry(sum, "clusters: [prod, stage]"):                          "clusterTokens[0]: a cluster token needs one name",
		"clusterTokens:\n" + entry(sum, "clusters: ['*']"):                                  "needs one name",
		"clusterTokens:\n" + entry(sum, "user: jo, clusters: [prod]"):                       "and no user",
		"apiKeys:\n" + entry(sum, "user: jo, clusters: [prod], key: "+secret):               `unknown field "key"`,
		secret + ": {user: jo}\n":                                                           `unknown field "(a long word)"`,
		"apiKeys: [" + secret + "]\n":                                                       "cannot unmarshal string",
		"apiKeys:\n- {\n":                                                                   "did not find expected node",
		"apiKeys:\n" + good + "apiKeys:\n" + good:                                           "already set",
		"apiKeys: {" + secret + ": {user: jo}, " + secret + ": {user: jo}}\n":               "already set",
		"apiKeys:\n- {sha256: " + sum + ", organisation: acme, user: jo, clusters: prod}\n": "cannot unmarshal string",
	} {
		_, err := credentials.Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v, want %q", text, err, want)
		}
		if err != nil && strings.Contains(err.Error(), secret[:20]) {
			t.Errorf("the message has the secret: %v", err)
		}
	}
	if _, err := credentials.Parse(nil); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

func FuzzFind(f *testing.F) {
	known, err := credentials.Parse([]byte("apiKeys:\n" + entry(sum, "user: jo, clusters: [prod]")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(secret[:40])
	f.Fuzz(func(t *testing.T, sent string) {
		if sent != secret && known.Find(sent) != nil {
			t.Fatalf("%q is a key", sent)
		}
	})
}
