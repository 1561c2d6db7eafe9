package admission_test

import (
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/admission"
)

// user is an author, with the rights that matter here. All users can write all of the operator's kinds.
type user struct {
	name, says string
	rights     []right
}

// right is a rule of RBAC in one namespace; empty: in all.
type right struct {
	namespace string
	rule      rbacv1.PolicyRule
}

func may(namespace, verb, group, resource string, names ...string) right {
	return right{namespace, rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: strings.Split(resource, ","), ResourceNames: names}}
}

const contents = "secrets,configmaps,persistentvolumeclaims"

// users are the columns of the table.
func users() []user {
	ours := func(resource string) right { return may("", "get", crdv1.Group, resource) }
	members := ours("forkedworkloads,signadotexternalworkloads,virtualworkloads,signadotsandboxes")
	return []user{
		{"admin", "may do everything", []right{may("", "*", "*", "*")}},
		{"developer", "may create Deployments, Rollouts, Services, pods and Secrets in `shop`, execute commands in pods and read all Secrets, ConfigMaps and claims there, and delete sandboxes", []right{
			members, may("", "delete", crdv1.Group, "signadotsandboxes"), may("shop", "create", "apps", "deployments"), may("shop", "create", "argoproj.io", "rollouts"),
			may("shop", "create", "", "services,pods,secrets,pods/exec"), may("shop", "get", "", contents)}},
		{"builder", "may create Deployments in `shop`, and read nothing there", []right{members, may("shop", "create", "apps", "deployments")}},
		{"operator", "may create Deployments and pods in `shop`, and read Secret `db`, ConfigMap `settings` and claim `data` there", []right{
			members, may("shop", "create", "apps", "deployments"), may("shop", "create", "", "pods"), may("shop", "get", "", "secrets", "db"),
			may("shop", "get", "", "configmaps", "settings"), may("shop", "get", "", "persistentvolumeclaims", "data")}},
		{"neighbour", "has the developer's rights in `pay`, and none in `shop`", []right{
			members, may("pay", "create", "apps", "deployments"), may("pay", "create", "", "services,pods,secrets,pods/exec"), may("pay", "get", "", contents)}},
		{"stranger", "may write objects of `signadot.com` and read sandboxes, and do nothing else", []right{ours("signadotsandboxes")}},
	}
}

// linked is a user of a control plane, with the developer's rights. Its objects are written by the
// agent, a delegate, and its group has the rights.
func linked() user {
	return user{"linked", "is user `" + linkedAs.User + "` of a control plane, with group `" + linkedAs.Groups[1] + "`, which has the developer's rights; the agent writes the objects", users()[1].rights}
}

// linkedAs is the author that the agent names, and linkAgent the agent's account.
var linkedAs = crdv1.Author{User: crdv1.ControlPlanePrefix + "acme:jo", Groups: []string{crdv1.ControlPlanePrefix + "acme", crdv1.ControlPlanePrefix + "acme:dev"}}

const linkAgent = "system:serviceaccount:signadot:signadot-agent"

// columns are the users of the table of specifications.
func columns() []user { return append(users(), linked()) }

// has reports whether one of the rights is that access, as RBAC decides it.
func (u user) has(a admission.Access) bool {
	in := func(list []string, one string) bool { return slices.Contains(list, "*") || slices.Contains(list, one) }
	return slices.ContainsFunc(u.rights, func(r right) bool {
		named := len(r.rule.ResourceNames) == 0 || a.Name != "" && slices.Contains(r.rule.ResourceNames, a.Name)
		return (r.namespace == "" || r.namespace == a.Namespace) && in(r.rule.Verbs, a.Verb) &&
			in(r.rule.APIGroups, a.Group) && in(r.rule.Resources, a.Resource) && named
	})
}

// row is a specification and the users that can write it: y or n for each of users.
type row struct {
	says, may, kind, text string
}

// answers are y or n for each of columns.
func (r row) answers() string { return r.may + r.may[1:2] }

// sandboxOf is a sandbox with this spec; forkOf one that forks customer with these patches'
// forms.
func sandboxOf(says, may, spec string) row {
	return row{says, may, crdv1.KindSandbox, "metadata: {name: NAME}\nspec: {id: NAME, " + spec + "}"}
}

func forkOf(says, may string, forms ...string) row {
	return sandboxOf(says, may, "customization: {patches: ["+patchesFor("shop", "customer", forms...)+"]}")
}

func patchesFor(namespace, name string, forms ...string) string {
	var out []string
	for _, f := range forms {
		out = append(out, fmt.Sprintf("{target: {apiVersion: apps/v1, kind: Deployment, namespace: %s, name: %s}, %s}", namespace, name, f))
	}
	return strings.Join(out, ", ")
}

// container and pod are strategic patches.
func container(fields string) string {
	return "strategic: {spec: {template: {spec: {containers: [{name: main, " + fields + "}]}}}}"
}

func pod(fields string) string { return "strategic: {spec: {template: {spec: {" + fields + "}}}}" }

func volume(source string) string { return pod("volumes: [{name: v, " + source + "}]") }

func variable(from string) string { return container("env: [{name: V, valueFrom: {" + from + "}}]") }

// baseline names a workload.
func baseline(namespace, name string) string {
	return fmt.Sprintf("baseline: {apiVersion: apps/v1, kind: Deployment, namespace: %s, name: %s}", namespace, name)
}

// rows are the specifications, over Deployments customer in shop, which uses Secret own,
// ConfigMap own and claim own and has the annotation note: other, and ledger in pay.
func rows() []row {
	return slices.Concat(forks(), reads(), unsure(), others(), direct(), units(), keptValues(), bounds())
}

func forks() []row {
	return []row{
		sandboxOf("a sandbox that asks for nothing", "yyyyyy", ""),
		forkOf("a fork without changes", "yyyynn", "template: false"),
		forkOf("another image", "yyyynn", container("image: other")),
		sandboxOf("a fork with middleware trafficwatch", "yyyynn", "customization: {patches: ["+patchesFor("shop", "customer", "template: false")+"]}, "+
			"requestMiddlewares: [{instance: {middleware: trafficwatch}, workload: {kind: Deployment, namespace: shop, name: customer}}]"),
		forkOf("a variable with a text", "yyyynn", container("env: [{name: V, value: x}]")),
		sandboxOf("a fork in the namespace pay", "ynnnyn", "customization: {patches: ["+patchesFor("pay", "ledger", container("image: other"))+"]}"),
		sandboxOf("forks in both namespaces", "ynnnnn", "customization: {patches: ["+patchesFor("pay", "ledger", container("image: other"))+", "+
			patchesFor("shop", "customer", container("image: other"))+"]}"),
		sandboxOf("a fork of an Argo Rollout", "yynnnn",
			"customization: {patches: [{target: {apiVersion: argoproj.io/v1alpha1, kind: Rollout, namespace: shop, name: r}}]}"),
		sandboxOf("a fork of a kind that this version does not know", "ynnnnn",
			"customization: {patches: [{target: {apiVersion: apps/v1, kind: StatefulSet, namespace: shop, name: s}}]}"),
		sandboxOf("a fork, its apiVersion written as apps", "yyyynn",
			"customization: {patches: [{target: {apiVersion: apps, kind: Deployment, namespace: shop, name: customer}}]}"),
		sandboxOf("a fork, its apiVersion written as apps/v1/x", "yyyynn",
			"customization: {patches: [{target: {apiVersion: apps/v1/x, kind: Deployment, namespace: shop, name: customer}}]}"),
		sandboxOf("a fork of a kind of the core group", "ynnnnn",
			"customization: {patches: [{target: {apiVersion: v1, kind: ReplicationController, namespace: shop, name: customer}}]}"),
		sandboxOf("a target without a namespace, of which nothing is made", "yyyyyy",
			"customization: {patches: [{target: {apiVersion: apps/v1, kind: Deployment, name: customer}}]}"),
	}
}

func reads() []row {
	named := func(kind, name string) string { return kind + ": {name: " + name + ", key: k}" }
	return []row{
		forkOf("a variable of Secret db", "yynynn", variable(named("secretKeyRef", "db"))),
		forkOf("all variables of Secret db", "yynynn", container("envFrom: [{secretRef: {name: db}}]")),
		forkOf("Secret db as a volume", "yynynn", volume("secret: {secretName: db}")),
		forkOf("Secret db in a projected volume", "yynynn", volume("projected: {sources: [{secret: {name: db}}]}")),
		forkOf("Secret db to pull images with", "yynynn", pod("imagePullSecrets: [{name: db}]")),
		forkOf("Secret other", "yynnnn", volume("secret: {secretName: other}")),
		forkOf("Secret other where it is optional", "yynnnn", variable("secretKeyRef: {name: other, key: k, optional: true}")),
		forkOf("Secret other in a new init container", "yynnnn", pod("initContainers: [{name: i, image: i, envFrom: [{secretRef: {name: other}}]}]")),
		forkOf("Secret other by a merge patch", "yynnnn", "merge: {spec: {template: {spec: {volumes: [{name: v, secret: {secretName: other}}]}}}}"),
		forkOf("Secret other by a JSON patch", "yynnnn", "json: [{op: add, path: /spec/template/spec/volumes/-, value: {name: v, secret: {secretName: other}}}]"),
		forkOf("Secret other, its name copied from an annotation of the baseline", "yynnnn",
			"json: [{op: copy, from: /metadata/annotations/note, path: /spec/template/spec/volumes/0/secret/secretName}]"),
		forkOf("Secret own, which the baseline uses, in another place", "yyyynn", container("envFrom: [{secretRef: {name: own}}]")),
		forkOf("Secret other, which a later patch takes away", "yynnnn", volume("secret: {secretName: other}"), pod("volumes: [{name: v, $patch: delete}]")),
		forkOf("a variable of ConfigMap settings", "yynynn", variable(named("configMapKeyRef", "settings"))),
		forkOf("ConfigMap other as a volume", "yynnnn", volume("configMap: {name: other}")),
		forkOf("ConfigMap own, which the baseline uses", "yyyynn", variable(named("configMapKeyRef", "own"))),
		forkOf("claim data", "yynynn", volume("persistentVolumeClaim: {claimName: data}")),
		forkOf("claim other", "yynnnn", volume("persistentVolumeClaim: {claimName: other}")),
		forkOf("claim own, which the baseline uses", "yyyynn", volume("persistentVolumeClaim: {claimName: own}")),
		forkOf("a new volume with a copy of claim other", "yynnnn", volume("ephemeral: {volumeClaimTemplate: {spec: {dataSource: {kind: PersistentVolumeClaim, name: other}}}}")),
		forkOf("a new volume with a copy of claim data of namespace pay", "ynnnnn",
			volume("ephemeral: {volumeClaimTemplate: {spec: {dataSourceRef: {kind: PersistentVolumeClaim, name: data, namespace: pay}}}}")),
		forkOf("a new volume that is empty", "yyyynn", volume("ephemeral: {volumeClaimTemplate: {spec: {}}}")),
		sandboxOf("what a resource of the sandbox gives", "yynnnn", "managedResources: [{name: db, pluginName: p, olm: {}}], customization: {patches: ["+
			patchesFor("shop", "customer", `template: true, `+volume(`secret: {secretName: "{{ .resources.db.objectName }}"}`))+"]}"),
		forkOf("what a resource of another sandbox gives", "yynnnn", volume("secret: {secretName: another-db-0a1b2c3d}")),
	}
}

func unsure() []row {
	missing := func(forms ...string) string {
		return "customization: {patches: [" + patchesFor("shop", "missing", forms...) + "]}"
	}
	return []row{
		sandboxOf("a baseline that does not exist yet, with a patch", "yynnnn", missing(container("image: other"))),
		sandboxOf("a baseline that does not exist yet, without a change", "yyyynn", missing("template: false")),
		forkOf("a patch that does not apply as the baseline is", "yynnnn", "json: [{op: test, path: /spec/replicas, value: 7}]"),
		forkOf("a template with a variable that is not known", "yynnnn", "template: true, "+container(`image: "{{ .nothing }}"`)),
	}
}

func others() []row {
	return []row{
		sandboxOf("an external workload for customer", "yyyynn", "externalWorkloads: [{name: x, "+baseline("shop", "customer")+"}]"),
		sandboxOf("an external workload for nothing", "yyyyyy", "externalWorkloads: [{name: x}]"),
		sandboxOf("an external workload for a fake baseline in pay", "ynnnyn",
			"externalWorkloads: [{name: x, baseline: {fake: true, apiVersion: x/v1, kind: X, name: x, namespace: pay}}]"),
		sandboxOf("a virtual workload before customer", "yyyynn", "virtualWorkloads: [{name: x, "+baseline("shop", "customer")+"}]"),
		{"a route group", "yyyyyy", crdv1.KindRouteGroup, "metadata: {name: NAME}\nspec: {routingKey: NAME, sandboxNames: [any]}"},
		{"a route group with middleware trafficwatch for customer", "yyyynn", crdv1.KindRouteGroup, "metadata: {name: NAME}\nspec: {routingKey: NAME, sandboxNames: [any], " +
			"trafficManagerMatches: [{instance: {middleware: trafficwatch}, workload: {kind: Deployment, namespace: shop, name: customer}}]}"},
		{"a route group with middleware trafficwatch for all", "ynnnnn", crdv1.KindRouteGroup, "metadata: {name: NAME}\nspec: {routingKey: NAME, sandboxNames: [any], " +
			"trafficManagerMatches: [{instance: {middleware: trafficwatch}}]}"},
		{"a RoutingConfig that routes to a fork in shop", "yyyyyn", crdv1.KindRoutingConfig,
			"metadata: {name: NAME}\nspec: {sandboxedWorkloads: [{kind: ForkedWorkload, namespace: shop, name: any}]}"},
	}
}

func direct() []row {
	job := func(says, may, namespace, context string) row {
		return row{says, may, crdv1.KindJob, "metadata: {name: NAME}\nspec: {canceled: false, content: {command: [x]}, runnerGroup: {namespace: " + namespace + ", name: any}, routingContext: {" + context + "}}"}
	}
	fork := func(annotations, fields string) string {
		return "metadata: {name: NAME, namespace: shop, annotations: {" + annotations + "}}\nspec: {" + baseline("shop", "customer") + ", " + fields + "}"
	}
	return []row{
		{"a ForkedWorkload with another image", "yyyynn", crdv1.KindForkedWorkload, fork("", "patches: [{"+container("image: other")+"}]")},
		{"a ForkedWorkload with Secret other", "yynnnn", crdv1.KindForkedWorkload, fork("", "patches: [{"+volume("secret: {secretName: other}")+"}]")},
		{"a ForkedWorkload that calls Secret other what a resource gives", "yynnnn", crdv1.KindForkedWorkload,
			fork("", `resourceTemplateData: {db: {name: db, objectName: other}}, patches: [{template: true, `+volume(`secret: {secretName: "{{ .resources.db.objectName }}"}`)+"}]")},
		{"a ForkedWorkload that names Secret other by an annotation", "yynnnn", crdv1.KindForkedWorkload,
			fork("signadot.com/sandbox-name: other", `patches: [{template: true, `+volume(`secret: {secretName: "{{ .sandbox.name }}"}`)+"}]")},
		{"a SignadotExternalWorkload for customer", "yyyynn", crdv1.KindExternalWorkload,
			"metadata: {name: NAME, namespace: shop}\nspec: {name: x, routingKey: x, workloadID: x, " + baseline("shop", "customer") + "}"},
		{"a VirtualWorkload before customer", "yyyynn", crdv1.KindVirtualWorkload,
			"metadata: {name: NAME, namespace: shop}\nspec: {name: x, " + baseline("shop", "customer") + "}"},
		job("a Job in shop", "yynnnn", "shop", ""),
		job("a Job in pay", "ynnnyn", "pay", ""),
		job("a Job in shop with the routing key of a sandbox", "yynnnn", "shop", "sandboxName: any"),
		job("a Job in shop with the routing key of a route group", "ynnnnn", "shop", "routegroupName: any"),
		{"a TrafficCapture in shop", "yyyynn", crdv1.KindTrafficCapture, "metadata: {name: NAME, namespace: shop}\nspec: {sandbox: any}"},
		{"a TrafficCapture in pay", "ynnnyn", crdv1.KindTrafficCapture, "metadata: {name: NAME, namespace: pay}\nspec: {sandbox: any, lease: {renewTime: \"2026-11-30T14:00:00.000000Z\"}}"},
		{"a JobRunnerGroup in shop", "yynynn", crdv1.KindJobRunnerGroup, "metadata: {name: NAME, namespace: shop}\nspec: {image: x}"},
		{"a JobRunnerGroup with Secret db", "yynynn", crdv1.KindJobRunnerGroup,
			"metadata: {name: NAME, namespace: shop}\nspec: {image: x, podTemplate: {spec: {containers: [{name: main, envFrom: [{secretRef: {name: db}}]}]}}}"},
		{"a JobRunnerGroup with Secret other", "yynnnn", crdv1.KindJobRunnerGroup,
			"metadata: {name: NAME, namespace: shop}\nspec: {image: x, podTemplate: {spec: {containers: [{name: main}], volumes: [{name: v, secret: {secretName: other}}]}}}"},
	}
}

// unitIn is a unit that runs in a namespace.
func unitIn(namespace, pod string) string {
	return "{name: u, type: ExecUnit, execUnitTemplate: {script: '#!/bin/sh', podTemplate: {metadata: {" + namespace + "}, spec: {" + pod + "}}}}"
}

func units() []row {
	const runner = "containers: [{name: main, image: i}]"
	inShop := func(pod string) string { return unitIn("namespace: shop", pod) }
	sandbox := func(says, may, unit, more string) row {
		return sandboxOf(says, may, "managedResources: [{name: db, pluginName: p, olm: {preStart: ["+unit+"]}}]"+more)
	}
	resource := func(says, may, olm, more string) row {
		return row{says, may, crdv1.KindResource, "metadata: {name: NAME}\nspec: {name: db, pluginName: p, olm: {" + olm + "}" + more + "}"}
	}
	return []row{
		sandbox("a step in the namespace of the operator", "ynnnnn", unitIn("", runner), ""),
		sandbox("a step in shop", "yynynn", inShop(runner), ""),
		sandbox("a step in pay", "ynnnyn", unitIn("namespace: pay", runner), ""),
		sandbox("a step with Secret db", "yynynn", inShop("containers: [{name: main, image: i, envFrom: [{secretRef: {name: db}}]}]"), ""),
		sandbox("a step with Secret other", "yynnnn", inShop(runner+", volumes: [{name: v, secret: {secretName: other}}]"), ""),
		sandbox("a step with Secret own, which the baseline uses", "yynnnn", inShop(runner+", imagePullSecrets: [{name: own}]"), ""),
		sandbox("a step with ConfigMap other", "yynnnn", inShop(runner+", volumes: [{name: v, projected: {sources: [{configMap: {name: other}}]}}]"), ""),
		sandbox("a step with claim data", "yynynn", inShop(runner+", volumes: [{name: v, persistentVolumeClaim: {claimName: data}}]"), ""),
		sandbox("a step with a copy of claim data of namespace pay", "ynnnnn", inShop(runner+
			", volumes: [{name: v, ephemeral: {volumeClaimTemplate: {spec: {dataSourceRef: {kind: PersistentVolumeClaim, name: data, namespace: pay}}}}}]"), ""),
		sandbox("a step in shop beside a fork there", "yynnnn", inShop(runner), ", customization: {patches: ["+patchesFor("shop", "customer", "template: false")+"]}"),
		resource("a Resource without steps", "yyyyyy", "", ""),
		resource("a Resource with a unit in shop", "yynynn", "preStart: ["+inShop(runner)+"]", ""),
		resource("a Resource with a unit in shop that runs at its end", "yynynn", "postStop: ["+inShop(runner)+"]", ""),
		resource("a Resource that gives its outputs to shop", "yynnnn", "", ", outputNamespaces: [shop]"),
		resource("a Resource that gives its outputs to shop and pay", "ynnnnn", "", ", outputNamespaces: [shop, pay]"),
		{"SignadotObjectLifecycleMethods with a unit with Secret db", "yynynn", crdv1.KindLifecycleMethods,
			"metadata: {name: NAME}\nspec: {ioContextName: NAME, postStop: [" + inShop("containers: [{name: main, image: i, envFrom: [{secretRef: {name: db}}]}]") + "]}"},
	}
}

func bounds() []row {
	var members, patches []string
	for i := range admission.DefaultMembers + 1 {
		members = append(members, fmt.Sprintf("{name: m%d, %s}", i, baseline("shop", fmt.Sprint("w", i))))
	}
	for range admission.DefaultPatches + 1 {
		patches = append(patches, "template: false")
	}
	return []row{
		sandboxOf("more members than are possible", "nnnnnn", "virtualWorkloads: ["+strings.Join(members, ", ")+"]"),
		forkOf("more patches than are possible", "nnnnnn", patches...),
		sandboxOf("more steps than are possible", "nnnnnn", "managedResources: [{name: a, pluginName: p, olm: {preStart: ["+strings.Repeat("{name: u, type: ExecUnit},", 30)+"]}}, "+
			"{name: b, pluginName: p, olm: {postStop: ["+strings.Repeat("{name: u, type: ExecUnit},", 21)+"]}}]"),
		forkOf("more pods than are possible", "nnnnnn", fmt.Sprintf("merge: {spec: {replicas: %d}}", admission.DefaultReplicas+1)),
	}
}
