// Package sandboxes has the commands that work with published specifications and a kubeconfig
// alone: sandbox, routegroup and resourceplugin.
//
//	sandbox apply, render                               sandbox.go
//	routegroup apply                                    group.go
//	apply, delete, get and list of both                 kind.go, wait.go
//	resourceplugin apply, delete, get, list             plugin.go
//	a file, with the variables that people give it      file.go
//	text for people                                     show.go
//
// The operations are in workflows/sandboxes and workflows/plugins.
package sandboxes
