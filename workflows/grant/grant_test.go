package grant_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/eventbus/trust/trusttest"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/grant"
	"switchyard.dev/workflows/podreads"
)

func TestOnlyWhatTheOperatorHasSignedIsAGrant(t *testing.T) {
	g := grant.Grant{Lifecycle: "u1", Unit: "make", Attempt: 2, Namespace: "shop", Pod: "db-make-2-x", PodUID: "p1",
		Rights: execunit.Rights{Namespace: "shop", Reads: []podreads.Read{{Kind: "Secret", Name: "db"}}}}
	old, now, other := trusttest.New(t, "old"), trusttest.New(t, "now"), trusttest.New(t, "other")
	trusted, err := trust.ReadBundle(append(now.Bundle(), old.Bundle()...))
	if err != nil {
		t.Fatal(err)
	}
	sign := func(g grant.Grant, by grant.Signer) string {
		text, err := grant.Sign(g, by)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, by := range map[string]grant.Signer{"the authority": now.Sign, "one before it that is still trusted": old.Sign} {
		if got, err := grant.Verify(sign(g, by), trusted); err != nil || !reflect.DeepEqual(got, g) {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
	another := g
	another.PodUID = "p2"
	content, _, _ := strings.Cut(sign(another, now.Sign), ".")
	_, signature, _ := strings.Cut(sign(g, now.Sign), ".")
	for name, text := range map[string]string{
		"nothing": "", "no signature": content, "another authority": sign(g, other.Sign),
		"another pod with the same signature": content + "." + signature, "no base64": "!." + signature, "no base64 in the signature": content + ".!",
		"signed for another purpose": sign(g, func(message []byte) ([]byte, error) { return now.Sign(message[1:]) }),
	} {
		if got, err := grant.Verify(text, trusted); !errors.Is(err, grant.ErrNotSigned) {
			t.Errorf("%s: %v, %+v", name, err, got)
		}
	}
	if _, err := grant.Sign(g, func([]byte) ([]byte, error) { return nil, errors.New("no key") }); err == nil {
		t.Error("a grant without a key")
	}
}
