package istioadapter

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"switchyard.dev/reconcilers/meshes/istioadapter/routepatch"
)

// rendered returns a VirtualService with two routes to customer, with routes for these keys.
func rendered(t *testing.T, keys ...string) *unstructured.Unstructured {
	o := virtualService("a", "customer", "1")
	routes := routesOf(o).([]any)
	second := maps.Clone(routes[0].(map[string]any))
	second["match"] = []any{map[string]any{"uri": map[string]any{"prefix": "/api"}}}
	o.Object["spec"].(map[string]any)["http"] = []any{second, routes[0]}
	r := render((*state)(nil).next(shop(map[string][]string{"customer": keys}, o)).mesh, o, nil)
	if n := len(routesOf(r.Object).([]any)); n != 2*(len(keys)+1) {
		t.Fatalf("with %d keys it has %d routes", len(keys), n)
	}
	return r.Object
}

// TestAPatchMakesWhatIsWanted adds and removes sandboxes, changes the owner's routes, reorders the
// operator's, and applies the patch of the webhook.
func TestAPatchMakesWhatIsWanted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	some := func() *unstructured.Unstructured {
		var keys []string
		for i := range 12 {
			if random.IntN(3) > 0 {
				keys = append(keys, fmt.Sprintf("k%d", i))
			}
		}
		return rendered(t, keys...)
	}
	singly := 0
	for range 300 {
		have, want := some(), some()
		routes := routesOf(have).([]any)
		switch random.IntN(4) {
		case 0:
			random.Shuffle(len(routes), func(i, j int) { routes[i], routes[j] = routes[j], routes[i] })
		case 1:
			routes[random.IntN(len(routes))].(map[string]any)["timeout"] = "1s"
		case 2:
			have.Object["spec"].(map[string]any)["http"] = routes[:random.IntN(len(routes))]
		}
		before, patch := text(t, have), routepatch.Of(have, want)
		operations, err := jsonpatch.DecodePatch([]byte(text(t, patch)))
		if err != nil {
			t.Fatal(err)
		}
		after, err := operations.Apply([]byte(before))
		if err != nil {
			t.Fatalf("%s: %v", text(t, patch), err)
		}
		if !jsonpatch.Equal(after, []byte(text(t, want))) {
			t.Fatalf("%s\nmakes of %s\n%s,\nnot      %s", text(t, patch), before, after, text(t, want))
		}
		if len(patch) > 0 && patch[0].Path != "/spec/http" {
			singly++
		}
	}
	if singly < 100 {
		t.Errorf("%d of 300 patches wrote routes one by one", singly)
	}
}

// TestAPatchIsAsLargeAsTheChange adds a sandbox to many.
func TestAPatchIsAsLargeAsTheChange(t *testing.T) {
	var keys []string
	for i := range 200 {
		keys = append(keys, fmt.Sprintf("k%03d", i))
	}
	for _, at := range []int{0, 100, 199} {
		without := append(append([]string{}, keys[:at]...), keys[at+1:]...)
		a, b := rendered(t, without...), rendered(t, keys...)
		for what, patch := range map[string][]routepatch.Operation{"comes": routepatch.Of(a, b), "goes": routepatch.Of(b, a)} {
			if len(patch) != 3 { // A route before each of the owner's, and the digest.
				t.Errorf("sandbox %d of 200 %s with %d operations", at, what, len(patch))
			}
		}
	}
}

func text(t *testing.T, o any) string {
	t.Helper()
	out, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
