package routingkey_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"pgregory.net/rapid"

	"switchyard.dev/reconcilers/routingkey"
)

func TestEveryKeyHasALegalConfigNameOfItsOwn(t *testing.T) {
	seen := map[string]string{}
	for _, key := range []string{
		"plain", "a.b", "A", "a", "a_b", "a-b", "é", "日本語", " ", "a b", "a\x00b", "-", "..", "x-65c0bb13",
		strings.Repeat("a", 253), strings.Repeat("a", 254), strings.Repeat("é", 500), strings.Repeat("é", 501),
	} {
		name := routingkey.ConfigName(key)
		if problems := validation.IsDNS1123Subdomain(name); problems != nil {
			t.Errorf("key of %d bytes: %q is no legal name: %v", len(key), name, problems)
		}
		if other, taken := seen[name]; taken {
			t.Errorf("keys %q and %q share %q", other, key, name)
		}
		seen[name] = key
	}
	if got := routingkey.ConfigName("my-key"); got != "my-key" {
		t.Errorf("a key that is a legal name becomes %q", got)
	}
}

func TestTheOldestHasAKeyThatNobodyDeclaresWhoeverAsks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var claims []routingkey.Claim
		for i := range rapid.IntRange(1, 6).Draw(t, "claims") {
			claims = append(claims, routingkey.Claim{
				Kind: rapid.SampledFrom([]string{"SignadotSandbox", "SignadotRouteGroup"}).Draw(t, "kind"),
				Name: string(rune('a' + rapid.IntRange(0, 9).Draw(t, "name"))), UID: types.UID(rune('0' + i)),
				Created: metav1.NewTime(time.Unix(int64(rapid.IntRange(0, 2).Draw(t, "created")), 0)),
			})
		}
		// The dumb version: in order of age, name and kind.
		sorted := slices.Clone(claims)
		slices.SortStableFunc(sorted, func(a, b routingkey.Claim) int {
			text := func(c routingkey.Claim) string { return c.Created.UTC().Format(time.RFC3339) + c.Name + c.Kind }
			return strings.Compare(text(a), text(b))
		})
		first := func(c routingkey.Claim) string { return c.Created.UTC().String() + c.String() }
		for _, own := range claims {
			others := rapid.Permutation(claims).Draw(t, "others")
			if got := routingkey.Holder(own, others, nil); first(got) != first(sorted[0]) {
				t.Fatalf("%v asks and is told %v, want %v", own, got, sorted[0])
			}
		}
	})
}

func TestOnlyClaimHasTheKey(t *testing.T) {
	own := routingkey.Claim{Kind: "SignadotRouteGroup", Name: "g", UID: "u"}
	if got := routingkey.Holder(own, nil, nil); got != own {
		t.Error(got)
	}
}
