// Package compile makes a SignadotSandbox of the published specification of a sandbox and of
// the resource plugins that it names, and a SignadotRouteGroup of that of a route group. It is pure: values in, values out.
//
//	Sandbox   the object, or what is wrong                       sandbox.go
//	          forks: images, environment, patches                forks.go, env.go
//	          workloads elsewhere, middleware, endpoints         members.go, endpoints.go
//	          env and files of those on a workstation            local.go
//	          resources: which version of a plugin, its steps    resources.go, units.go
//	Group     a route group, of the sandboxes that match now    group.go
//	DeleteSteps  the delete steps of a mended plugin for a Resource that exists    mended.go
//	Plugin    what is wrong with a resource plugin               plugin.go
//
// Everything that is wrong is found in one go, each with the path of its field; specfile
// knows the lines. What passes is taken by the API server: a rule of the object's definition
// that the specification could break is a check here.
//
// # What is not known yet
//
// The specification says what only the cluster knows: the main container, the address of
// another fork, the object with a resource's outputs. For these the patches have variables
// (tools/adr/0014), which are substituted when a fork is made:
//
//	no container named             {{ .baseline.container }}
//	valueFrom.resource             {{ .resources.<name>.objectName }}
//	valueFrom.fork, .Service.Host  {{ .forks.<kind>/<namespace>/<name>.service.host }}
//	valueFrom.fork, .Service.Port  {{ .forks.<kind>/<namespace>/<name>.service.port }}
//
// Braces in texts of the specification stay what they are.
//
// # What has no field in the object
//
// Description, labels, lifetime, endpoints and the versions of plugins are annotations
// (crdv1), and so are env and files of local workloads, which the workstation's own client
// reads: with references to Secrets and ConfigMaps, and the variables of patches. Which
// workstation a sandbox is bound to is left out, and noted.
//
// # What the published files do not have
//
// A step of a plugin may say retry: true, an extension of ours: its script may run again when
// nobody can say whether it came to its end, as when its node has vanished. It becomes the
// annotation signadot.com/retry-lost of the unit's pod template. Without it such a unit is held
// for a person.
//
// # The routing key
//
// It is the name of the sandbox, which is unique; a sandbox that has another one keeps it.
package compile
