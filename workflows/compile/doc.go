// Package compile converts the published specification of a sandbox, and of the resource plugins
// that it names, to a SignadotSandbox, and that of a route group to a SignadotRouteGroup. It is
// pure: values in, values out.
//
//	Sandbox   the object, or its problems                        sandbox.go
//	          forks: images, environment, patches                forks.go, env.go
//	          workloads elsewhere, middleware, endpoints         members.go, endpoints.go
//	          env and files of those on a workstation            local.go
//	          resources: which version of a plugin, its steps    resources.go, units.go
//	Group     a route group, of the sandboxes that match now     group.go
//	DeleteSteps  the delete steps of a repaired plugin for a Resource that exists    mended.go
//	Plugin    the problems of a resource plugin                  plugin.go
//
// All problems are found in one go, each with the path of its field; specfile knows the lines.
// The API server accepts every object that passes: a rule of the object's definition that the
// specification could break is a check here.
//
// # Values that are known only in the cluster
//
// The specification refers to values that only the cluster knows: the main container, the address
// of another fork, the object with a resource's outputs. For these the patches have variables
// (tools/adr/0014), which are substituted when a fork is created:
//
//	no container named             {{ .baseline.container }}
//	valueFrom.resource             {{ .resources.<name>.objectName }}
//	valueFrom.fork, .Service.Host  {{ .forks.<kind>/<namespace>/<name>.service.host }}
//	valueFrom.fork, .Service.Port  {{ .forks.<kind>/<namespace>/<name>.service.port }}
//
// Braces in texts of the specification are preserved.
//
// # Fields that the object does not have
//
// Description, labels, lifetime, endpoints and the versions of plugins are annotations (crdv1),
// and so are env and files of local workloads, which the workstation's own client reads: with
// references to Secrets and ConfigMaps, and the variables of patches. The workstation that a
// sandbox is bound to is left out, with a note.
//
// # Extensions of the published files
//
// A step of a plugin may have retry: true: its script may run again when it is unknown whether it
// completed, for example because its node vanished. It becomes the annotation
// signadot.com/retry-lost of the unit's pod template. Without it such a unit waits for a person.
//
// # The routing key
//
// The routing key is the name of the sandbox, which is unique; a sandbox that has another one
// keeps it.
package compile
