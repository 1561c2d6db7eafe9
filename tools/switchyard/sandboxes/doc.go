// Package sandboxes contains the commands that need only published specifications, and a kubeconfig or a
// control plane: sandbox, routegroup and resourceplugin.
//
//	sandbox apply, render                               sandbox.go
//	routegroup apply                                    group.go
//	apply, delete, get and list of both                 kind.go, wait.go
//	resourceplugin apply, delete, get, list             plugin.go
//	a file, with the variables of the user              file.go
//	output as text                                      show.go
//	the cluster or the control plane                    site
//
// The operations are in workflows/sandboxes and workflows/plugins.
package sandboxes
