package meaning

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// freeForm are the fields of a patch below which null has a meaning: it removes a field.
var freeForm = []string{"strategic", "merge", "json"}

// LostNulls returns the fields of patches that are null in the specification given to kubectl apply and
// missing in the one at the API server: kubectl removes them, so the patch leaves these fields unchanged.
// Both are JSON; path is the path of the specification.
func LostNulls(applied, stored []byte, path string) []string {
	var given, has any
	if json.Unmarshal(applied, &given) != nil || json.Unmarshal(stored, &has) != nil {
		return nil
	}
	return lostNulls(given, has, path, false)
}

func lostNulls(given, has any, path string, counts bool) (out []string) {
	switch given := given.(type) {
	case map[string]any:
		has, _ := has.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(given)) {
			value, there := has[key]
			switch at := path + "." + key; {
			case given[key] == nil && counts && !there && has != nil:
				out = append(out, at)
			case there:
				out = append(out, lostNulls(given[key], value, at, counts || slices.Contains(freeForm, key))...)
			case counts && onlyNulls(given[key]): // kubectl keeps the empty object, other clients may not.
				out = append(out, at)
			}
		}
	case []any:
		has, _ := has.([]any)
		for i := range given {
			if len(has) == len(given) {
				out = append(out, lostNulls(given[i], has[i], fmt.Sprintf("%s[%d]", path, i), counts)...)
			}
		}
	}
	return out
}

// onlyNulls reports whether an object has nulls and nothing else.
func onlyNulls(value any) bool {
	object, is := value.(map[string]any)
	for _, v := range object {
		if v != nil && !onlyNulls(v) {
			return false
		}
	}
	return is && len(object) > 0
}

// ExplainLostNulls is the sentence about them.
func ExplainLostNulls(paths []string) string {
	return fmt.Sprintf("kubectl apply removed null from these patches, which therefore do not remove the fields %s: replace null with {$patch: delete}, use a JSON patch with op remove, or apply the file with kubectl apply --server-side.", strings.Join(paths, ", "))
}
