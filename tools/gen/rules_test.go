package main

import (
	"strings"
	"testing"
)

func TestRulesComeFromMarkersWhereverTheyStand(t *testing.T) {
	root := tree(t, map[string]string{
		"reconcilers/sandbox/reconciler.go": `// Package sandbox is an example.
package sandbox

// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list

// Reconcile has a marker in its own comment.
//
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=delete
func Reconcile() {
	// +kubebuilder:rbac:groups=apps,resources=replicasets,verbs=get
}
`,
		"reconcilers/sandbox/reconciler_test.go": "package sandbox\n\n// +kubebuilder:rbac:groups=\"\",resources=nodes,verbs=delete\n",
		"sidecars/webhook/doc.go": "// Package webhook is an example.\npackage webhook\n\n" +
			"// +kubebuilder:rbac:groups=\"\",resources=pods,verbs=get\n",
		"xds/serve/doc.go": "// Package serve is not run by the manager.\npackage serve\n\n" +
			"// +kubebuilder:rbac:groups=\"\",resources=secrets,verbs=get\n",
	})
	files, err := rules(root)
	if err != nil {
		t.Fatal(err)
	}
	want := `# Generated from +kubebuilder:rbac markers by tools/gen. Do not edit.
- apiGroups:
  - ""
  resources:
  - pods
  verbs:
  - get
- apiGroups:
  - apps
  resources:
  - deployments
  verbs:
  - delete
  - get
  - list
- apiGroups:
  - apps
  resources:
  - replicasets
  verbs:
  - get
`
	if have := string(files[rulesFile]); have != want {
		t.Errorf("have\n%s\nwant\n%s", have, want)
	}
}

func TestRulesAreNotMadeWithoutMarkers(t *testing.T) {
	root := tree(t, map[string]string{"reconcilers/doc.go": "// Package reconcilers is an example.\npackage reconcilers\n"})
	if files, err := rules(root); err != nil || len(files) != 0 {
		t.Errorf("have %v, %v", files, err)
	}
}

func TestARuleInANamespaceOfItsOwnIsRefused(t *testing.T) {
	// It would make a second role, which the chart does not take.
	root := tree(t, map[string]string{
		"reconcilers/doc.go": "// Package reconcilers is an example.\npackage reconcilers\n\n" +
			"// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get\n" +
			"// +kubebuilder:rbac:groups=\"\",namespace=other,resources=secrets,verbs=get\n",
	})
	if files, err := rules(root); err == nil || !strings.Contains(err.Error(), "namespace") {
		t.Errorf("have %v and the error %v, want one about the namespace", files, err)
	}
}

func TestAMarkerThatCannotBeReadIsAnError(t *testing.T) {
	root := tree(t, map[string]string{
		"reconcilers/doc.go": "// Package reconcilers is an example.\npackage reconcilers\n\n" +
			"// +kubebuilder:rbac:groups=apps,resorces=deployments,verbs=get\n",
	})
	if files, err := rules(root); err == nil {
		t.Errorf("it was passed over: %v", files)
	}
}
